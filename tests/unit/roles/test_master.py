"""The master as a process: killed in the middle of heartbeats, started again, told to end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster_double
import pytest
from masters import TOKEN, fetch, heartbeat, master_spec, role_process, status_of, wait_for

from headrace.control.client import ControlClient
from headrace.control.messages import Outlook
from headrace.control.roster import Roster
from headrace.engine import native
from headrace.errors import DeadlineError, HeadraceError, OriginUnreachableError
from headrace.exits import ExitCode
from headrace.roles.processes.master import MasterProcess
from headrace.testing.processes import free_port


@pytest.fixture
def port() -> int:
    return free_port()


def status(port: int) -> dict[str, Any]:
    return status_of(f"http://127.0.0.1:{port}")


class Beating(threading.Thread):
    """Workers that report without a pause, as often as they can, whatever the master does."""

    def __init__(self, url: str, names: list[str]) -> None:
        super().__init__(daemon=True)
        self._url, self._names = url, names
        self._ended = threading.Event()
        self.epochs: list[int] = []
        self.outlooks: dict[int, object] = {}
        self.failures: list[HeadraceError] = []

    def run(self) -> None:
        asyncio.run(self._beat())

    def end(self) -> None:
        self._ended.set()
        self.join(120)

    async def _beat(self) -> None:
        known = dict.fromkeys(self._names, 0)
        async with ControlClient(self._url, TOKEN) as client:
            while not self._ended.is_set():
                for name in self._names:
                    try:
                        answer = await client.heartbeat(heartbeat(name, known_epoch=known[name]))
                    except (OriginUnreachableError, DeadlineError):
                        await asyncio.sleep(0.01)
                    except HeadraceError as error:
                        self.failures.append(error)
                    else:
                        known[name] = answer.outlook.epoch
                        self._note(answer.outlook)
                await asyncio.sleep(0.001)

    def _note(self, outlook: Outlook) -> None:
        self.epochs.append(outlook.epoch)
        if outlook.view is None:
            return
        members = [
            {key: value for key, value in member.items() if key != "cached_bytes"}
            for member in outlook.view["members"]
        ]
        before = self.outlooks.setdefault(outlook.epoch, members)
        assert before == members, f"epoch {outlook.epoch} was used for two different views"


@pytest.fixture
def beating(port: int) -> Iterator[Beating]:
    thread = Beating(f"http://127.0.0.1:{port}", [f"w{number}" for number in range(5)])
    thread.start()
    yield thread
    thread.end()


def test_a_master_killed_in_the_middle_of_heartbeats_learns_everything_back(
    tmp_path: Path, port: int, beating: Beating
) -> None:
    """Three times kill -9: no epoch is used twice, none goes back, and all workers are known again."""
    folder = tmp_path / "master"
    names = {f"w{number}" for number in range(5)}
    for _ in range(3):
        with role_process("master", master_spec(folder, port), tmp_path / "log") as process:
            wait_for("all workers", lambda: {row["id"] for row in status(port)["workers"]} == names)
            heard = len(beating.epochs)
            wait_for("more heartbeats", lambda heard=heard: len(beating.epochs) > heard + 50)
            process.kill()
            process.wait()
    with role_process("master", master_spec(folder, port), tmp_path / "log"):
        wait_for(
            "everybody to be heard",
            lambda: (
                [row for row in status(port)["workers"] if row["heartbeat_age_s"] is not None].__len__() == 5
            ),
        )
        beating.end()
    assert beating.epochs == sorted(beating.epochs)
    assert not beating.failures
    assert "is damaged" not in (tmp_path / "log").read_text()


def test_a_master_that_lost_its_state_goes_on_from_the_epoch_that_members_know(
    tmp_path: Path, port: int, beating: Beating
) -> None:
    folder = tmp_path / "master"
    with role_process("master", master_spec(folder, port), tmp_path / "log"):
        wait_for("all workers", lambda: len(status(port)["workers"]) == 5)
    known = max(beating.epochs)
    (folder / "state.json").write_bytes((folder / "state.json").read_bytes()[:-30])
    # It is quiet for twice as long as it takes a worker for alive.
    with role_process("master", master_spec(folder, port, dead_after_s=3.0), tmp_path / "log"):
        wait_for("all workers", lambda: len(status(port)["workers"]) == 5)
        wait_for("a later epoch", lambda: status(port)["epoch"] > known)
    beating.end()
    assert "is damaged: it is cut off" in (tmp_path / "log").read_text()
    assert list(folder.glob("state.json.damaged-*"))


def test_it_ends_in_order_and_a_hang_up_takes_a_new_snapshot(tmp_path: Path, port: int) -> None:
    with role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log") as process:
        wait_for("a snapshot", lambda: status(port)["snapshot"])
        process.send_signal(signal.SIGHUP)
        wait_for("another snapshot", lambda: status(port)["snapshot"]["version"] == 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    assert "master: ended" in (tmp_path / "log").read_text()


def test_a_start_while_the_storage_is_away_lists_it_later(tmp_path: Path, port: int) -> None:
    folder = tmp_path / "m"
    with role_process("master", master_spec(folder, port), tmp_path / "log"):
        wait_for("a snapshot", lambda: status(port)["snapshot"])
    (folder / "unreachable").touch()
    with role_process("master", master_spec(folder, port), tmp_path / "log"):
        wait_for("the fault", lambda: status(port)["refresh_error"])
        assert status(port)["snapshot"]["version"] == 1
        (folder / "unreachable").unlink()
        wait_for("a new list", lambda: status(port)["snapshot"]["version"] == 2)
        wait_for("no fault", lambda: status(port)["refresh_error"] is None)


def test_two_masters_do_not_share_a_folder(tmp_path: Path, port: int) -> None:
    with role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"):
        wait_for("it", lambda: status(port))
        with role_process("master", master_spec(tmp_path / "m", free_port()), tmp_path / "second") as second:
            assert second.wait(120) == ExitCode.BUSY
    assert "error: another master works in" in (tmp_path / "second").read_text()


def test_an_address_in_use_is_told(tmp_path: Path, port: int) -> None:
    with role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"):
        wait_for("it", lambda: status(port))
        with role_process("master", master_spec(tmp_path / "n", port), tmp_path / "second") as second:
            assert second.wait(120) == ExitCode.CONFIG
    assert re.search(r"error: cannot listen on 127.0.0.1:\d+: ", (tmp_path / "second").read_text())


def test_a_fault_that_ends_the_work_of_a_master_ends_the_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its members go on without it, and who keeps it alive starts another; half a master would be taken for a whole."""
    module = cluster_double.make_module()

    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(native, "load", lambda: module)
    monkeypatch.setattr(Roster, "tick", fail)
    with pytest.raises(RuntimeError, match="planted"):
        asyncio.run(asyncio.wait_for(MasterProcess(master_spec(tmp_path)).run(), 20))


def test_no_secret_leaves_a_trace(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    folder = tmp_path / "m"
    with role_process("master", master_spec(folder, port, log_level="debug"), tmp_path / "log") as process:
        wait_for("a snapshot", lambda: status(port)["snapshot"])
        wait_for("what it keeps", (folder / "state.json").exists)
        traces = [
            Path(f"/proc/{process.pid}/{name}").read_bytes().decode(errors="replace")
            for name in ("cmdline", "environ")
        ]
        traces += [
            fetch(f"http://127.0.0.1:{port}{path}").decode() for path in ("/", "/metrics", "/v1/status")
        ]
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".hrs"]
    assert {"log", "state.json"} <= {path.name for path in files}
    traces += [path.read_bytes().decode(errors="replace") for path in files]
    for secret in (TOKEN.get_secret_value(), "PLANTED"):
        assert not [trace for trace in traces if secret in trace]


def test_lines_of_json_when_asked_for(tmp_path: Path, port: int) -> None:
    spec = master_spec(tmp_path / "m", port, log_format="json")
    with role_process("master", spec, tmp_path / "log") as process:
        wait_for("it", lambda: status(port))
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert any(line["fields"]["message"].startswith("master: cluster shop at http://") for line in lines)
    assert os.linesep not in lines[0]["fields"]["message"]

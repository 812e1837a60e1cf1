"""A worker as a process, around the double of its engine, against a real master: joins, goes on alone, drains, ends."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from masters import TOKEN, fetch, master_spec, role_process, status_of, wait_for, worker_spec
from pydantic import SecretStr

from headrace.cli.main import main
from headrace.control.client import ControlClient
from headrace.exits import ExitCode
from headrace.testing.processes import free_port


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def workers(url: str) -> dict[str, Any]:
    return {row["id"]: row for row in status_of(url)["workers"]}


def states(url: str) -> dict[str, str]:
    return {name: row["state"] for name, row in workers(url).items()}


def order_drain(url: str, worker: str) -> None:
    async def order() -> None:
        async with ControlClient(url, TOKEN) as client:
            await client.drain(worker)

    asyncio.run(order())


def test_a_worker_joins_reports_and_ends_in_order(tmp_path: Path, port: int, url: str) -> None:
    (tmp_path / "w1" / "engine").mkdir(parents=True)
    (tmp_path / "w1" / "engine" / "cached").write_text("4321")
    with (
        role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"),
        role_process("worker", worker_spec(tmp_path / "w1", url), tmp_path / "w1.log") as worker,
    ):
        wait_for("the worker", lambda: states(url) == {"w1": "active"})
        row = workers(url)["w1"]
        assert (row["node"], row["cached_bytes"], row["capacity_bytes"]) == ("node-1", 4321, 1 << 30)
        assert row["levels"] == [{"medium": "SSD", "quota_bytes": 1 << 30, "used_bytes": 4321, "trouble": ""}]
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == 0
        # A rolling restart: its place stays its own while it is away for a moment.
        assert states(url)["w1"] in ("active", "suspect")
    assert "worker/w1: ended\n" in (tmp_path / "w1.log").read_text()


def test_a_worker_goes_on_and_starts_again_without_a_master(tmp_path: Path, port: int, url: str) -> None:
    metrics = free_port()
    spec = worker_spec(tmp_path / "w1", url, metrics_address=f"127.0.0.1:{metrics}")

    def unreachable() -> str:
        text = fetch(f"http://127.0.0.1:{metrics}/metrics").decode()
        (line,) = [
            line for line in text.splitlines() if line.startswith("headrace_worker_master_unreachable ")
        ]
        return line[-1]

    with (
        role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log") as master,
        role_process("worker", spec, tmp_path / "w1.log") as worker,
    ):
        wait_for("the worker", lambda: states(url) == {"w1": "active"})
        wait_for("its view", lambda: view_of(tmp_path / "w1") == ["w1"])
        assert unreachable() == "0"
        master.kill()
        wait_for("the metric", lambda: unreachable() == "1")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == 0
    with role_process("worker", spec, tmp_path / "w2.log"):
        wait_for("it to serve", lambda: unreachable() == "1")
        with role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"):
            wait_for("the worker again", lambda: workers(url)["w1"]["heartbeat_age_s"] is not None)
            wait_for("the metric", lambda: unreachable() == "0")
    # It may have been quicker than the master at first, and have said so, too.
    log = (tmp_path / "w1.log").read_text().rpartition("answers again")[2]
    told = [
        line for line in log.splitlines() if "going on without the master: cannot reach the master" in line
    ]
    reasons = [line.rpartition(": ")[2] for line in told]
    # The answer that was under way may have been cut off; then nobody listened any more.
    assert len(reasons) == len(set(reasons)) >= 1, told
    assert "answers again" in (tmp_path / "w2.log").read_text()


def view_of(folder: Path) -> list[str]:
    """What it has written down of the view, if it has."""
    if not (folder / "outlook.json").exists():
        return []
    kept = json.loads((folder / "outlook.json").read_text())
    return [member["id"] for member in kept["view"]["members"]]


def test_a_drained_worker_ends_by_itself(tmp_path: Path, port: int, url: str) -> None:
    with (
        role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"),
        role_process("worker", worker_spec(tmp_path / "w1", url, "w1"), tmp_path / "w1.log") as first,
        role_process("worker", worker_spec(tmp_path / "w2", url, "w2"), tmp_path / "w2.log"),
    ):
        wait_for("both workers", lambda: states(url) == {"w1": "active", "w2": "active"})
        order_drain(url, "w1")
        assert first.wait(120) == 0
        wait_for("its end", lambda: states(url) == {"w1": "drained", "w2": "active"})
    assert "worker/w1: ended, drained" in (tmp_path / "w1.log").read_text()


def test_a_drain_does_not_end_before_a_disk_that_hangs_answers_and_says_so(
    tmp_path: Path,
    port: int,
    url: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", TOKEN.get_secret_value())
    (tmp_path / "w1" / "engine").mkdir(parents=True)
    hanging = tmp_path / "w1" / "engine" / "hanging"
    hanging.touch()
    with (
        role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"),
        role_process("worker", worker_spec(tmp_path / "w1", url, "w1"), tmp_path / "w1.log") as first,
        role_process("worker", worker_spec(tmp_path / "w2", url, "w2"), tmp_path / "w2.log"),
    ):
        wait_for("both workers", lambda: states(url) == {"w1": "active", "w2": "active"})
        assert main(["drain", "w1", "--cluster", url]) == ExitCode.UNREACHABLE
        told = capfd.readouterr().err
        assert "worker w1 cannot hand over what lies in /cache: the disk does not answer" in told
        assert "stop the worker" in told
        log = tmp_path / "w1.log"
        wait_for(
            "a word about it", lambda: "the disk of cache folder /cache does not answer" in log.read_text()
        )
        assert states(url)["w1"] == "draining"
        hanging.unlink()
        assert first.wait(120) == 0
        wait_for("its end", lambda: states(url) == {"w1": "drained", "w2": "active"})


def test_heartbeats_go_on_while_a_drain_waits_for_a_disk(tmp_path: Path, port: int, url: str) -> None:
    state = tmp_path / "w1" / "engine"
    state.mkdir(parents=True)
    (state / "silent").touch()
    with (
        role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"),
        role_process("worker", worker_spec(tmp_path / "w1", url, "w1"), tmp_path / "w1.log") as first,
        role_process("worker", worker_spec(tmp_path / "w2", url, "w2"), tmp_path / "w2.log"),
    ):
        wait_for("both workers", lambda: states(url) == {"w1": "active", "w2": "active"})
        order_drain(url, "w1")
        wait_for("the disk to be waited for", (state / "waiting").exists)
        # Whole at once: each heartbeat reads it.
        (state / "draft").write_text("4321")
        (state / "draft").rename(state / "cached")
        wait_for("a heartbeat that began later", lambda: workers(url)["w1"]["cached_bytes"] == 4321)
        (state / "silent").unlink()
        assert first.wait(120) == 0
        wait_for("its end", lambda: states(url) == {"w1": "drained", "w2": "active"})


def test_a_worker_that_cannot_close_a_folder_ends_and_says_so(tmp_path: Path, port: int, url: str) -> None:
    (tmp_path / "w1" / "engine").mkdir(parents=True)
    with (
        role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"),
        role_process("worker", worker_spec(tmp_path / "w1", url), tmp_path / "w1.log") as worker,
    ):
        wait_for("the worker", lambda: states(url) == {"w1": "active"})
        (tmp_path / "w1" / "engine" / "hanging").touch()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == ExitCode.UNREACHABLE
    log = (tmp_path / "w1.log").read_text()
    assert "worker/w1: the disk of cache folder /cache does not answer: not closed; it is checked" in log
    assert "worker/w1: ended\n" in log


def test_a_second_process_of_the_same_name_takes_its_place(tmp_path: Path, port: int, url: str) -> None:
    with (
        role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"),
        role_process("worker", worker_spec(tmp_path / "a", url, "w1"), tmp_path / "a.log") as older,
    ):
        wait_for("the worker", lambda: states(url) == {"w1": "active"})
        with role_process("worker", worker_spec(tmp_path / "b", url, "w1"), tmp_path / "b.log") as younger:
            assert older.wait(120) == ExitCode.BUSY
            assert younger.poll() is None
    assert "error: a younger process is worker 'w1' now" in (tmp_path / "a.log").read_text()


@pytest.mark.parametrize("fault", ["token", "origins"])
def test_a_worker_that_does_not_belong_ends_with_words(
    tmp_path: Path, port: int, url: str, fault: str
) -> None:
    spec = worker_spec(tmp_path / "w", url)
    if fault == "token":
        other = SecretStr("PLANTED-other-token-0123456789")
        spec = spec.model_copy(update={"token": other})
    else:
        mounts = tuple(mount.model_copy(update={"path": "elsewhere"}) for mount in spec.config.origins)
        spec = spec.model_copy(update={"config": spec.config.model_copy(update={"origins": mounts})})
    with (
        role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"),
        role_process("worker", spec, tmp_path / "w.log") as worker,
    ):
        wait_for("it", lambda: fetch(f"{url}/healthz"))
        assert worker.wait(120) == (ExitCode.REFUSED if fault == "token" else ExitCode.CONFIG)
    log = (tmp_path / "w.log").read_text()
    assert ("does not accept the token" if fault == "token" else "has other origins") in log
    assert "PLANTED" not in log


def test_no_secret_leaves_a_trace(tmp_path: Path, port: int, url: str) -> None:
    spec = worker_spec(tmp_path / "w", url, log_level="debug")
    with (
        role_process("master", master_spec(tmp_path / "m", port), tmp_path / "log"),
        role_process("worker", spec, tmp_path / "w.log") as worker,
    ):
        wait_for("the worker", lambda: states(url) == {"w1": "active"})
        traces = [Path(f"/proc/{worker.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    traces += [path.read_bytes() for path in (tmp_path / "w").rglob("*") if path.is_file()]
    traces += [(tmp_path / "w.log").read_bytes()]
    for secret in (TOKEN.get_secret_value().encode(), b"PLANTED"):
        assert not [trace for trace in traces if secret in trace]

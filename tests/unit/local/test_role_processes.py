"""Processes of roles: started, watched, found again, ended with all that they started."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.local.processes.process_tags import end_all, tag_of, tagged_processes
from headrace.local.processes.role_processes import RoleOrder, RoleProcesses, RoleRecord
from headrace.process.stat import started_ticks
from headrace.settings.environment import ROLE_MARK, Environment

DEADLINE_S = 60.0
LIVES = "import time; print('alive', flush=True); time.sleep(600)"
IGNORES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {LIVES}"
HAS_CHILD = (
    f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {LIVES!r}]); time.sleep(600)"
)


@pytest.fixture(autouse=True)
def nothing_left(database):
    yield
    end_all(database.instance, grace_s=0.0)


def order(tmp_path, program: str = LIVES, role: str = "default.imagenet.worker-0") -> RoleOrder:
    return RoleOrder(
        id=role,
        namespace="default",
        dataset="imagenet",
        kind="worker",
        node="node-1",
        command=(sys.executable, "-c", program),
        log_file=str(tmp_path / "logs" / f"{role}.log"),
        version="1",
    )


def make(database, on_end=None) -> RoleProcesses:
    return RoleProcesses(database, Environment.current(), on_end)


def until_alive(tmp_path, role: str = "default.imagenet.worker-0") -> None:
    log = tmp_path / "logs" / f"{role}.log"
    until(lambda: "alive" in (log.read_text() if log.exists() else ""), "a word of the role")


def until(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.01)


def test_a_role_runs_until_it_is_stopped(database, tmp_path) -> None:
    async def run() -> None:
        roles = make(database)
        record = roles.start(order(tmp_path))
        assert (record.state, record.starts) == ("running", 1)
        until_alive(tmp_path)
        await roles.stop(record.order.id)
        assert started_ticks(record.pid) is None
        assert roles.all() == []
        assert make(database).all() == []

    asyncio.run(run())


def test_the_end_of_a_role_is_told_with_its_code(database, tmp_path) -> None:
    async def run() -> None:
        ended: asyncio.Queue[RoleRecord] = asyncio.Queue()
        roles = make(database, ended.put_nowait)
        roles.start(order(tmp_path, "raise SystemExit(7)"))
        record = await ended.get()
        assert (record.state, record.exit_code) == ("ended", 7)
        again = roles.start(replace(record.order, command=(sys.executable, "-c", LIVES)))
        assert again.starts == 2
        with pytest.raises(ValueError, match="runs already"):
            roles.start(again.order)
        await roles.stop(again.order.id)

    asyncio.run(run())


@pytest.mark.parametrize("program", [IGNORES, HAS_CHILD], ids=["deaf", "with-child"])
def test_a_stopped_role_leaves_no_process(database, tmp_path, program: str) -> None:
    async def run() -> None:
        roles = make(database)
        record = roles.start(order(tmp_path, program))
        until_alive(tmp_path)
        await roles.stop(record.order.id, grace_s=0.2)
        assert tagged_processes(database.instance) == []

    asyncio.run(run())


def test_the_next_supervisor_takes_running_roles_over(database, tmp_path) -> None:
    async def first() -> RoleRecord:
        roles = make(database)
        record = roles.start(order(tmp_path))
        roles.close()
        return record

    async def second(before: RoleRecord) -> None:
        ended: asyncio.Queue[RoleRecord] = asyncio.Queue()
        roles = make(database, ended.put_nowait)
        roles.recover()
        assert roles.get(before.order.id) == before
        os.kill(before.pid, signal.SIGKILL)
        assert (await ended.get()).state == "ended"

    asyncio.run(second(asyncio.run(first())))


def test_a_role_whose_start_was_not_written_down_is_found_by_its_mark(database, tmp_path) -> None:
    """The supervisor is killed between the start of a process and the note of its number."""
    wanted = order(tmp_path)
    make(database)._write(RoleRecord(wanted, starts=1))
    mark = {ROLE_MARK: tag_of(database.instance, wanted.id)}
    with subprocess.Popen(
        wanted.command, env=mark, start_new_session=True, stdout=subprocess.DEVNULL
    ) as process:

        async def run() -> None:
            roles = make(database)
            roles.recover()
            record = roles.get(wanted.id)
            assert record is not None
            assert (record.state, record.pid) == ("running", process.pid)
            roles.close()

        until(lambda: tagged_processes(database.instance), "its mark")
        asyncio.run(run())
        process.kill()


def test_a_process_that_nobody_wrote_down_is_ended(database) -> None:
    mark = {ROLE_MARK: tag_of(database.instance, "default.gone.worker-0")}
    command = [sys.executable, "-c", LIVES]
    with subprocess.Popen(command, env=mark, start_new_session=True, stdout=subprocess.DEVNULL) as process:
        until(lambda: tagged_processes(database.instance), "its mark")

        async def run() -> None:
            make(database).recover()

        asyncio.run(run())
        assert process.wait(timeout=DEADLINE_S) == -signal.SIGKILL


def test_a_role_that_ended_meanwhile_is_known_to_have_ended(database, tmp_path) -> None:
    async def first() -> RoleRecord:
        roles = make(database)
        record = roles.start(order(tmp_path))
        roles.close()
        return record

    async def second(before: RoleRecord) -> None:
        roles = make(database)
        roles.recover()
        record = roles.get(before.order.id)
        assert record is not None
        assert (record.state, record.exit_code) == ("ended", None)

    before = asyncio.run(first())
    os.kill(before.pid, signal.SIGKILL)
    os.waitpid(before.pid, 0)
    asyncio.run(second(before))


def test_the_token_of_a_cluster_is_not_inherited(database, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", "planted-token-0123456789")

    async def run() -> None:
        roles = make(database)
        record = roles.start(order(tmp_path))
        until_alive(tmp_path)
        assert b"planted" not in Path(f"/proc/{record.pid}/environ").read_bytes()
        await roles.stop(record.order.id)

    asyncio.run(run())

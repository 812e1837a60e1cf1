"""Whether a mount answers is asked of its process, and one that is silent holds up nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.local.datasets.mount_probe import answers
from headrace.local.jobs.mount_counters import reading_of_mount
from headrace.testing.processes import freeze

from .harness import Shell, eventually

# More than the threads of the pool that everything else in the supervisor shares.
MANY = 64


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "run").mkdir(mode=0o700)
    return Shell(tmp_path, {"HEADRACE_STATE_DIR": str(tmp_path / "state")})


@pytest.fixture
def mounts(tmp_path: Path, shell: Shell) -> Iterator[tuple[Path, Path, int]]:
    """Two mounts, and the process of the first."""
    sources = tmp_path / "one", tmp_path / "two"
    for source in sources:
        source.mkdir()
        (source / "a").write_bytes(b"data")
    with (
        shell.mounted(str(sources[0]), tmp_path / "first") as first,
        shell.mounted(str(sources[1]), tmp_path / "second") as second,
    ):
        (entry,) = json.loads(shell.must("status", "--json", first).stdout)
        try:
            yield first, second, entry["pid"]
        finally:
            os.kill(entry["pid"], signal.SIGCONT)


def test_a_silent_mount_is_told_and_holds_up_nobody(mounts: tuple[Path, Path, int]) -> None:
    first, second, process = mounts

    async def ask() -> tuple[list[bool], bool, bool]:
        silent = [asyncio.create_task(answers(str(first))) for _ in range(MANY)]
        await asyncio.sleep(0)
        other = await answers(str(second))
        free = await asyncio.to_thread(lambda: not any(task.result() for task in silent if task.done()))
        return await asyncio.gather(*silent), other, free

    eventually(lambda: asyncio.run(answers(str(first))), lambda: "it does not answer")
    freeze(process)
    for _ in range(2):
        told, other, free = asyncio.run(ask())
        assert not any(told), "a mount whose process is frozen is told as answering"
        assert other
        assert free
        assert waiting(first) == 1
    os.kill(process, signal.SIGCONT)
    eventually(lambda: asyncio.run(answers(str(first))), lambda: "it does not answer again")
    eventually(lambda: waiting(first) == 0, lambda: "a thread still waits")


def test_counters_are_asked_of_a_silent_mount_once_and_hold_up_nobody(
    mounts: tuple[Path, Path, int], shell: Shell
) -> None:
    first, second, process = mounts
    registry = shell.registry()
    begun = datetime.fromtimestamp(0, UTC)

    async def told(mountpoint: Path) -> bool:
        try:
            return await reading_of_mount(registry, str(mountpoint), "a", begun) is not None
        except (HeadraceError, TimeoutError):
            return False

    async def ask() -> tuple[list[bool], bool, int]:
        silent = [asyncio.create_task(told(first)) for _ in range(MANY)]
        await asyncio.sleep(0)
        other = await told(second)
        threads = await asyncio.to_thread(waiting, first)
        return await asyncio.gather(*silent), other, threads

    eventually(lambda: asyncio.run(told(first)), lambda: "its counters are not told")
    freeze(process)
    for _ in range(2):
        silent, other, threads = asyncio.run(ask())
        assert not any(silent), "a process that is frozen has told its counters"
        assert other
        assert threads == 1
    os.kill(process, signal.SIGCONT)
    eventually(lambda: asyncio.run(told(first)), lambda: "its counters are not told again")


def waiting(mountpoint: Path) -> int:
    """Threads that wait for an answer of a mount."""
    return sum(str(mountpoint) in thread.name for thread in threading.enumerate())

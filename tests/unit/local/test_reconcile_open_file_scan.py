"""Who uses a mount: told for open files, mapped files and working folders, and for nobody else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.local.reconcile.open_file_scan import OpenFileScan, processes_below, users_of

PROGRAMS = {
    "open": "import sys; file = open(sys.argv[1])",
    "mapped": "import mmap, sys; file = open(sys.argv[1]); m = mmap.mmap(file.fileno(), 0, prot=1); file.close()",
    "folder": "import os, sys; os.chdir(os.path.dirname(sys.argv[1]))",
    "none": "import sys",
}


@contextmanager
def running(program: str, file: Path) -> Iterator[int]:
    code = f"{PROGRAMS[program]}\nprint('there', flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize("program", ["open", "mapped", "folder"])
def test_users_are_named(program: str, tmp_path: Path) -> None:
    file = tmp_path / "mount" / "file"
    file.parent.mkdir()
    file.write_bytes(b"x" * 4096)
    with running(program, file) as pid:
        found = processes_below(str(tmp_path), 1)
        (consumer,) = users_of({str(file.parent): "node-1"}, frozenset(), found)
        assert (consumer.user.split(" (")[0], consumer.node) == (f"process {pid}", "node-1")
        assert users_of({str(file.parent): "node-1"}, frozenset({pid}), found) == ()
        assert users_of({f"{file.parent}-2": "node-1"}, frozenset(), found) == ()


def test_a_process_elsewhere_is_no_user(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    with running("none", file):
        assert processes_below(str(tmp_path), 1) == ()


def test_who_comes_later_is_seen_by_who_asks_from_now_on_alone(tmp_path: Path) -> None:
    file = tmp_path / "mount" / "file"
    file.parent.mkdir()
    file.write_bytes(b"x" * 4096)

    async def ask() -> tuple[bool, bool, bool]:
        users = OpenFileScan(tmp_path, depth=1)
        first = await users.latest(3600)
        with running("open", file):
            old, (new, _) = await users.latest(3600), await asyncio.gather(users.latest(0), users.latest(0))
        return bool(first), bool(old), bool(new)

    assert asyncio.run(ask()) == (False, False, True)

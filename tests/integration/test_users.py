"""An ordinary user mounts, reads and unmounts through fusermount3, and another user stays outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from .harness import HEADRACE
from .machines import NEEDS, OTHER, USER, Machine, shared_machine

pytestmark = NEEDS


@pytest.fixture
def machine() -> Iterator[Machine]:
    with shared_machine() as made:
        yield made


def test_an_ordinary_user_mounts_reads_and_unmounts(machine: Machine) -> None:
    mnt = machine.folder / "mnt"
    # As the top of a data disk has it.
    (machine.folder / "source" / "lost+found").mkdir(mode=0o700)
    mounted = machine.run(
        USER, HEADRACE, "mount", machine.folder / "source", mnt, "--cache", f"{machine.folder}/home/cache:1Gi"
    )
    assert mounted.returncode == 0, mounted.stderr
    try:
        assert machine.run(USER, "cat", mnt / "a.txt").stdout == "content" * 1000
        assert machine.run(USER, HEADRACE, "warm", mnt).returncode == 0
        shown = machine.run(USER, HEADRACE, "status", mnt).stdout
        assert "100.0%" in shown
        assert "unreadable 1" in shown
        assert "lost+found" in shown
        refused = machine.run(OTHER, "cat", mnt / "a.txt")
        assert refused.returncode != 0
        assert "Permission denied" in refused.stderr
        assert machine.run(OTHER, HEADRACE, "unmount", mnt).returncode != 0
        assert machine.run(OTHER, HEADRACE, "status", mnt).returncode != 0
        assert machine.run(USER, "cat", mnt / "a.txt").returncode == 0, "the other user ended it"
    finally:
        ended = machine.run(USER, HEADRACE, "unmount", mnt)
    assert ended.returncode == 0, ended.stderr
    assert machine.run(USER, "ls", mnt).stdout == ""


def test_the_mount_of_an_ordinary_user_survives_its_process(machine: Machine) -> None:
    mnt, source = machine.folder / "mnt", machine.folder / "source"
    words = ["--mode", "classic", "--cache", f"{machine.folder}/home/cache:1Gi"]
    mounted = machine.run(USER, HEADRACE, "mount", source, mnt, *words)
    assert mounted.returncode == 0, mounted.stderr
    # It holds one file open all the time, kills the process, and reads what the page cache cannot have.
    reader = """
import json, os, signal, subprocess, sys
headrace, mnt = sys.argv[1:]
def entry():
    told = subprocess.run([headrace, "status", "--json", mnt], stdout=subprocess.PIPE).stdout
    return json.loads(told)[0]
descriptor = os.open(mnt + "/a.txt", os.O_RDONLY)
before = entry()
os.kill(before["pid"], signal.SIGKILL)
os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
assert os.pread(descriptor, 10_000, 0) == b"content" * 1000
assert open(mnt + "/a.txt", "rb").read() == b"content" * 1000
after = entry()
while after["restarts"] == 0:
    after = entry()
assert after["pid"] != before["pid"] and after["supervisor_pid"] == before["supervisor_pid"]
subprocess.run([headrace, "restart", mnt], check=True)
assert os.pread(descriptor, 10_000, 0) == b"content" * 1000
"""
    try:
        survived = machine.run(USER, sys.executable, "-c", reader, HEADRACE, mnt)
        assert survived.returncode == 0, survived.stderr
        assert machine.run(OTHER, HEADRACE, "restart", mnt).returncode != 0
    finally:
        ended = machine.run(USER, HEADRACE, "unmount", mnt)
    assert ended.returncode == 0, ended.stderr
    assert machine.run(USER, "ls", mnt).stdout == ""


def test_a_mountpoint_of_somebody_else_is_refused_in_words(machine: Machine) -> None:
    closed = machine.folder / "closed"
    closed.mkdir(mode=0o700)
    refused = machine.run(USER, HEADRACE, "mount", machine.folder / "source", closed)
    assert refused.returncode == 5, refused.stderr
    assert str(closed) in refused.stderr
    assert "Traceback" not in refused.stderr

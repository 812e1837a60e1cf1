"""An ordinary user mounts, reads and unmounts through fusermount3, and another user stays outside."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import HEADRACE

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become two other users"),
    pytest.mark.skipif(shutil.which("fusermount3") is None, reason="needs fuse3"),
]
USER, OTHER = 65534, 65533
# A /dev/fuse that everyone may open, and an interpreter that everyone may enter, in a mount namespace of our own.
SURROUNDINGS = """
set -e
folder=$1 python=$2 closed=$3
mkdir "$folder/devices" "$folder/python"
mknod -m 666 "$folder/devices/fuse" c 10 229
mount --bind "$folder/devices/fuse" /dev/fuse
if [ -n "$closed" ]; then
    mount --bind "$python" "$folder/python"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$python"
    mount --bind "$folder/python" "$python"
fi
echo ready
exec cat
"""


class Machine:
    """The namespace, with a source folder and a home of the user's."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.folder = folder
        self._pid = pid

    def run(self, user: int, *command: str | Path) -> subprocess.CompletedProcess[str]:
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        home = {
            "HOME": str(self.folder / "home"),
            "XDG_RUNTIME_DIR": str(self.folder / "home"),
            "NO_COLOR": "1",
        }
        kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        return subprocess.run(
            ["nsenter", f"--target={self._pid}", "--mount", "--wd=/", "--", *become, *map(str, command)],
            env={"PATH": os.environ["PATH"], **home, **kept},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def closed_folder(path: Path) -> str:
    """The topmost folder above `path` that other users may not enter; empty when there is none."""
    return next((str(parent) for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001), "")


@pytest.fixture
def machine() -> Iterator[Machine]:
    python = Path(sys.base_prefix).resolve()
    if closed_folder(Path(HEADRACE)):
        pytest.skip(f"other users may not enter {closed_folder(Path(HEADRACE))}, where headrace is installed")
    folder = Path(tempfile.mkdtemp(prefix="headrace-users-"))
    folder.chmod(0o755)
    for name in ("home", "mnt", "source"):
        (folder / name).mkdir(mode=0o700 if name == "home" else 0o755)
        os.chown(folder / name, USER, USER)
    (folder / "source" / "a.txt").write_bytes(b"content" * 1000)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        command = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            SURROUNDINGS,
            "sh",
            folder,
            python,
            closed_folder(python),
        ]
        holder = stack.enter_context(
            subprocess.Popen(
                list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        assert holder.stdin is not None
        assert holder.stdout is not None
        stack.callback(holder.stdin.close)
        assert holder.stdout.readline() == "ready\n"
        yield Machine(folder, holder.pid)


def test_an_ordinary_user_mounts_reads_and_unmounts(machine: Machine) -> None:
    mnt = machine.folder / "mnt"
    mounted = machine.run(
        USER, HEADRACE, "mount", machine.folder / "source", mnt, "--cache", f"{machine.folder}/home/cache:1Gi"
    )
    assert mounted.returncode == 0, mounted.stderr
    try:
        assert machine.run(USER, "cat", mnt / "a.txt").stdout == "content" * 1000
        assert machine.run(USER, HEADRACE, "warm", mnt).returncode == 0
        assert "100.0%" in machine.run(USER, HEADRACE, "status", mnt).stdout
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

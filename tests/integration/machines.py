"""This machine as ordinary users see it: a /dev/fuse and an interpreter that are theirs to use."""

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

NEEDS = [
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
            timeout=180,
            check=False,
        )


def closed_folder(path: Path) -> str:
    """The topmost folder above `path` that other users may not enter; empty when there is none."""
    return next((str(parent) for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001), "")


@contextlib.contextmanager
def shared_machine() -> Iterator[Machine]:
    """One with a folder that everybody may enter; skips the test where no user can."""
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

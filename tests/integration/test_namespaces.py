"""Mounts of which another mount namespace has a copy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.roles.detaching import device_at
from headrace.roles.other_namespaces import holders_of
from headrace.roles.unmounted_process import end_unused_copies

from .harness import Shell
from .survival import wait_until_ended

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making mount namespaces needs root")

# Says when it stands in its own namespace, and goes when its input ends.
HOLDER = "import sys; held = open(sys.argv[1]) if sys.argv[1] else None; print('there', flush=True); sys.stdin.read()"


@contextmanager
def holder(path: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a mount namespace with copies of all mounts, which has `path` open."""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", HOLDER, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        yield process
        assert process.poll() is None, "it has outlived all"
        process.kill()


def test_a_mount_ends_though_another_namespace_has_a_copy_of_it(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(b"content")
    with (
        shell.mounted(str(tmp_path / "source"), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint,
        holder(""),
    ):
        shell.must("unmount", mountpoint)


def test_a_copy_that_is_used_is_left_to_its_user(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(b"content")
    with shell.mounted(str(tmp_path / "source"), tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint:
        pid, device = shell.status(mountpoint)["pid"], device_at(str(mountpoint))
        assert device is not None
        with holder("") as idle, holder(str(mountpoint / "file")) as user:
            subprocess.run(["umount", mountpoint], check=True)
            is_user = {each.pid: each.is_user for each in holders_of(device)}
            assert (is_user[idle.pid], is_user[user.pid]) == (False, True)
            end_unused_copies(device)
            assert Path(f"/proc/{user.pid}/fd/3").read_bytes() == b"content"
        wait_until_ended(pid)

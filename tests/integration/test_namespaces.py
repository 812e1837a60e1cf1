"""Mounts of which another mount namespace has a copy."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headrace.roles.mountpoint.detaching import device_at
from headrace.roles.mountpoint.mount_table import mount_at
from headrace.roles.mountpoint.other_namespaces import copies_of, holders_of
from headrace.roles.mountpoint.unmounted_process import end_unused_copies, not_ended
from headrace.testing.processes import freeze

from .harness import HEADRACE, Shell, mode_words
from .namespaces import holder
from .survival import registered, wait_until, wait_until_ended

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making mount namespaces needs root")


@contextmanager
def mounted_apart(shell: Shell, source: str, mountpoint: Path) -> Iterator[Path]:
    """A mount in a mount namespace of its own, and where to see it from here."""
    mountpoint.mkdir()
    command = ["unshare", "--mount", "--propagation", "private", HEADRACE, "mount", source, mountpoint]
    command += ["--cache", f"{mountpoint}-cache:1Gi"]
    subprocess.run(command, env=shell.full_environment(), check=True, capture_output=True)
    entry = registered(shell, mountpoint)
    assert entry.supervisor_pid is not None
    try:
        yield Path(f"/proc/{entry.pid}/root") / mountpoint.relative_to("/")
    finally:
        with suppress(ProcessLookupError):
            os.kill(entry.supervisor_pid, signal.SIGTERM)
        wait_until_ended(entry.pid, entry.supervisor_pid)


@pytest.mark.parametrize("mode", ["elide", "view"])
def test_a_mount_ends_though_another_namespace_has_a_copy_of_it(
    shell: Shell, tmp_path: Path, mode: str
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(b"content")
    with (
        shell.mounted(
            str(tmp_path / "source"), tmp_path / "mnt", *mode_words(mode), cache=tmp_path / "cache"
        ) as mountpoint,
        holder(""),
    ):
        shell.must("unmount", mountpoint)


def test_the_end_of_a_mount_ends_no_other_that_has_its_number_by_now(shell: Shell, tmp_path: Path) -> None:
    """The kernel gives the number of a file system that is gone to the next one that is mounted, whoever mounts it."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(b"content")
    source, next_one = str(tmp_path / "source"), tmp_path / "next"
    with (
        shell.mounted(source, tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint,
        ThreadPoolExecutor(1) as threads,
    ):
        pid = shell.status(mountpoint)["pid"]
        freeze(pid)
        unmounting = threads.submit(shell.run, "unmount", mountpoint)
        wait_until(lambda: device_at(str(mountpoint)) is None, lambda: "it is still mounted")
        with mounted_apart(shell, source, next_one) as seen_there:
            assert f"process {pid} stands still" in unmounting.result().stderr
            assert (seen_there / "file").read_bytes() == b"content"
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("mode", ["elide", "view"])
def test_a_copy_that_is_used_is_left_to_its_user(shell: Shell, tmp_path: Path, mode: str) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(b"content")
    with shell.mounted(
        str(tmp_path / "source"), tmp_path / "mnt", *mode_words(mode), cache=tmp_path / "cache"
    ) as mountpoint:
        pid, there = shell.status(mountpoint)["pid"], mount_at(str(mountpoint))
        assert there is not None
        with holder("") as idle, holder(str(mountpoint / "file")) as user:
            copies = copies_of(there)
            subprocess.run(["umount", mountpoint], check=True)
            is_user = {each.pid: each.is_user for each in holders_of(copies)}
            assert (is_user[idle.pid], is_user[user.pid]) == (False, True)
            connection = registered(shell, mountpoint).connection
            end_unused_copies(copies, connection)
            hint = str(not_ended(pid, mountpoint, copies, connection).hint)
            assert hint.endswith(f"/sys/fs/fuse/connections/{(connection or there.device)[2:]}/abort")
            assert Path(f"/proc/{user.pid}/fd/3").read_bytes() == b"content"
        wait_until_ended(pid)

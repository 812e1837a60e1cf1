"""A mount of one machine whose cache disk does not answer: commands end in words, and so does the mount itself."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.exits import ExitCode
from headrace.process.stat import started_ticks
from headrace.testing.cluster.freezing import frozen, mount_disk
from headrace.testing.cluster.node import UnsupportedError

from .harness import Outcome, Shell, eventually, tree_of

MEBIBYTE = 1 << 20
FILES = {f"part-{number:02}": bytes([number]) * (MEBIBYTE // 8) for number in range(16)}
TOTAL = sum(map(len, FILES.values()))
# What a command, or the end of a mount, may take when a disk hangs, and a busy machine's share.
SOON_S = 60.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder that is a disk of its own, gone afterwards."""
    folder = tmp_path / "cache"
    folder.mkdir()
    try:
        mount_disk(folder, 64 * MEBIBYTE)
    except UnsupportedError as error:
        pytest.skip(str(error))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def is_free(folder: Path) -> bool:
    """Whether no process has the cache folder, nor a thread that is left of one."""
    with (folder / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def must_name(folder: Path, outcome: Outcome, code: ExitCode) -> None:
    assert outcome.code == code, outcome.talk
    assert f"the disk of cache folder {folder} does not answer" in outcome.stderr, outcome.talk


def test_commands_end_in_words_others_go_on_and_the_mount_ends_without_its_disk(
    shell: Shell, tmp_path: Path, disk: Path
) -> None:
    origin, mountpoint = tmp_path / "origin", tmp_path / "mnt"
    origin.mkdir()
    for name, content in FILES.items():
        (origin / name).write_bytes(content)
    with shell.mounted(str(origin), mountpoint, cache=disk, quota="32Mi"):
        shell.must("warm", mountpoint)
        entry = shell.registry().get(str(mountpoint))
        with frozen(disk):
            must_name(disk, shell.run("evict", mountpoint, "--all", deadline_s=SOON_S), ExitCode.UNREACHABLE)
            for verb in ("verify", "warm"):
                must_name(disk, shell.run(verb, mountpoint, deadline_s=SOON_S), ExitCode.INCOMPLETE)
            assert str(mountpoint) in shell.must("status").stdout
            assert len(shell.must("ls", mountpoint).stdout.split()) == len(FILES)
            assert tree_of(mountpoint) == FILES, "from the origin"
            ended = shell.run("unmount", mountpoint, deadline_s=SOON_S)
            must_name(disk, ended, ExitCode.UNREACHABLE)
            assert "not closed" in ended.stderr
            assert not os.path.ismount(mountpoint)
            assert started_ticks(entry.pid) is None, "only threads in the kernel may be left"
            assert entry.log_file is not None
            assert (
                f"the disk of cache folder {disk} does not answer: not closed"
                in Path(entry.log_file).read_text()
            )
            # What the kernel keeps of that process holds nothing but the folder that hangs.
            with shell.mounted(str(origin), mountpoint, cache=tmp_path / "other"):
                assert tree_of(mountpoint) == FILES
    eventually(lambda: is_free(disk))
    with shell.mounted(str(origin), mountpoint, cache=disk, quota="32Mi"):
        shell.must("verify", mountpoint)
        shell.must("warm", mountpoint)
        assert shell.status(mountpoint)["cached_bytes"] == TOTAL
        assert tree_of(mountpoint) == FILES

"""Which list of files a mount starts with: a new one, the last one, or the last one until a new one is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.testing.faulty_origin import Fault, FaultyOrigin, Lie

from .harness import Shell, eventually, tree_of
from .servers import Bucket
from .survival import registered

LISTINGS = r"list-type=2"


@pytest.fixture
def known(shell: Shell, lying_bucket: Bucket, tmp_path: Path) -> dict:
    """The arguments of a mount whose list is known from before; since then `new` has come, and `old` has changed."""
    lying_bucket.fill({"old": b"1", "same": b"2"})
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **arguments):
        pass
    lying_bucket.fill({"old": b"one", "new": b"3"})
    return arguments


def test_a_mount_lists_anew_or_keeps_the_last_list_as_told(
    shell: Shell, lying_bucket: Bucket, known: dict, tmp_path: Path
) -> None:
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", "--snapshot", "keep", **known) as mountpoint:
        assert sorted(os.listdir(mountpoint)) == ["old", "same"]
        assert shell.status(mountpoint)["snapshot"]["version"] == 1
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", **known) as mountpoint:
        assert tree_of(mountpoint) == {"old": b"one", "same": b"2", "new": b"3"}


def test_a_mount_that_revalidates_serves_the_last_list_while_the_storage_lists(
    shell: Shell, liar: FaultyOrigin, lying_bucket: Bucket, known: dict, tmp_path: Path
) -> None:
    held = liar.add(Fault(Lie.HELD, LISTINGS))
    words = ("--snapshot", "revalidate")
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", *words, **known) as mountpoint:
        eventually(lambda: held.done, lambda: f"not asked for a list: {liar.requests}")
        assert sorted(os.listdir(mountpoint)) == ["old", "same"]
        assert (mountpoint / "same").read_bytes() == b"2"
        liar.clear()
        held.released.set()
        eventually(lambda: "new" in os.listdir(mountpoint), lambda: shell.status(mountpoint)["snapshot"])
        assert tree_of(mountpoint) == {"old": b"one", "same": b"2", "new": b"3"}
        assert shell.status(mountpoint)["snapshot"]["version"] == 2


def test_a_mount_ends_although_the_storage_has_not_listed_yet(
    shell: Shell, liar: FaultyOrigin, lying_bucket: Bucket, known: dict, tmp_path: Path
) -> None:
    held = liar.add(Fault(Lie.HELD, LISTINGS))
    words = ("--snapshot", "revalidate")
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", *words, **known) as mountpoint:
        eventually(lambda: held.done, lambda: f"not asked for a list: {liar.requests}")
        pid = registered(shell, mountpoint).pid
        shell.must("unmount", mountpoint)
        eventually(lambda: not Path(f"/proc/{pid}").exists(), lambda: f"process {pid} is still there")
        held.released.set()


def test_why_the_last_list_still_serves_is_said_and_a_refresh_repairs_it(
    shell: Shell, liar: FaultyOrigin, lying_bucket: Bucket, known: dict, tmp_path: Path
) -> None:
    liar.add(Fault(Lie.GARBAGE, LISTINGS))
    words = ("--snapshot", "revalidate")
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", *words, **known) as mountpoint:
        eventually(lambda: shell.status(mountpoint)["snapshot"]["refresh_error"], liar.requests.copy)
        assert "cannot list" in shell.status(mountpoint)["snapshot"]["refresh_error"]
        assert sorted(os.listdir(mountpoint)) == ["old", "same"]
        liar.clear()
        shell.must("refresh", mountpoint)
        assert sorted(os.listdir(mountpoint)) == ["new", "old", "same"]
        assert shell.status(mountpoint)["snapshot"]["refresh_error"] is None

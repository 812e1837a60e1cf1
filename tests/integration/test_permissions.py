"""Owners and modes of an origin that knows users are those of the mount."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import nfs_server
from headrace.testing.nfs_server import NfsServer

from .harness import Shell, mode_words

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make files of other users")

NOBODY, ANOTHER = 65534, 12345
SCRIPT = "#!/bin/sh\necho it runs\n"


def fill(source: Path) -> None:
    """A script for all, a file of a user's own, a folder of a user's own, and a file that sets the user."""
    source.mkdir(exist_ok=True)
    source.chmod(0o755)
    (source / "run.sh").write_text(SCRIPT)
    (source / "run.sh").chmod(0o755)
    (source / "own").write_bytes(b"private")
    os.chown(source / "own", ANOTHER, ANOTHER)
    (source / "own").chmod(0o600)
    (source / "closed").mkdir()
    (source / "closed" / "inside").write_bytes(b"hidden")
    (source / "closed").chmod(0o700)
    (source / "powerful").write_text(SCRIPT)
    (source / "powerful").chmod(0o4755)


def seen(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


def read_by(user: int, path: Path) -> bool:
    """Whether a process of this user can read the file."""
    words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "cat", path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "Permission denied" in done.stderr, done.stderr
    return done.returncode == 0


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user reaches: each run of pytest that begins on the machine closes those of all runs."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("mode", ["elide", "classic", "passthrough", "view"])
def test_a_folder_keeps_owners_and_modes(shell: Shell, place: Path, mode: str) -> None:
    fill(place / "source")
    words = ("--allow-other", *mode_words(mode))
    with shell.mounted(str(place / "source"), place / "mnt", *words, cache=place / "cache") as mountpoint:
        ran = subprocess.run([mountpoint / "run.sh"], capture_output=True, text=True, check=True)
        assert ran.stdout == "it runs\n"
        assert seen(mountpoint) == (0o755, 0, 0)
        assert seen(mountpoint / "own") == (0o600, ANOTHER, ANOTHER)
        assert seen(mountpoint / "closed") == (0o700, 0, 0)
        assert seen(mountpoint / "powerful") == (0o755, 0, 0), "rights are not handed on"
        assert read_by(ANOTHER, mountpoint / "own")
        assert not read_by(NOBODY, mountpoint / "own")
        assert not read_by(ANOTHER, mountpoint / "closed" / "inside")
        assert read_by(NOBODY, mountpoint / "run.sh")


@pytest.mark.parametrize("mode", ["auto", "view"])
def test_a_folder_that_is_closed_is_closed_as_a_mount(shell: Shell, place: Path, mode: str) -> None:
    source = place / "source"
    fill(source)
    source.chmod(0o700)
    words = ("--allow-other", *mode_words(mode))
    with shell.mounted(str(source), place / "mnt", *words, cache=place / "cache") as mountpoint:
        assert not read_by(NOBODY, mountpoint / "run.sh")
        source.chmod(0o755)
        shell.must("refresh", mountpoint)
        assert read_by(NOBODY, mountpoint / "run.sh")


@pytest.mark.parametrize(("mode", "plain"), [("auto", True), ("auto", False), ("view", True)])
def test_another_mode_is_seen_after_the_refresh(shell: Shell, tmp_path: Path, mode: str, plain: bool) -> None:
    """A change time tells that something changed, and not what: without the option the file is a new one."""
    fill(tmp_path / "source")
    options = {"ignore-change-times": "true"} if plain else {}
    words = ("--allow-other", *mode_words(mode))
    with shell.mounted(
        str(tmp_path / "source"), tmp_path / "mnt", *words, cache=tmp_path / "cache", options=options
    ) as mountpoint:
        before = (mountpoint / "own").stat()
        assert stat.S_IMODE(before.st_mode) == 0o600
        (tmp_path / "source" / "own").chmod(0o644)
        shell.must("refresh", mountpoint)
        after = (mountpoint / "own").stat()
        assert stat.S_IMODE(after.st_mode) == 0o644
        assert (after.st_ino == before.st_ino) == plain


@pytest.mark.skipif(bool(nfs_server.lacking()), reason=nfs_server.lacking())
def test_nfs_keeps_owners_and_modes(shell: Shell, tmp_path: Path) -> None:
    fill(tmp_path / "export")
    with (
        NfsServer(tmp_path / "export", state=tmp_path / "server") as nfs,
        shell.mounted(nfs.uri, tmp_path / "mnt", cache=tmp_path / "cache") as mountpoint,
    ):
        assert seen(mountpoint) == (0o755, 0, 0)
        assert seen(mountpoint / "run.sh") == (0o755, 0, 0)
        assert seen(mountpoint / "own") == (0o600, ANOTHER, ANOTHER)
        assert seen(mountpoint / "closed") == (0o700, 0, 0)


def test_a_bucket_has_files_that_all_may_read(shell: Shell, bucket, tmp_path: Path) -> None:
    bucket.fill({"folder/file": b"content"})
    with shell.mounted(
        bucket.uri, tmp_path / "mnt", cache=tmp_path / "cache", options=bucket.options
    ) as mountpoint:
        assert seen(mountpoint / "folder") == (0o555, 0, 0)
        assert seen(mountpoint / "folder" / "file") == (0o444, 0, 0)

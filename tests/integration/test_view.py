"""A view: the kernel's own file system shows names and pages, and asks the mount for content that it does not have."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from headrace.roles.mountpoint.mount_table import mounts

from .harness import Shell, mode_words, tree_of
from .survival import fill, registered, shell_without_server, wait_until, wait_until_ended


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return fill(tmp_path / "source")


@pytest.fixture
def alone(tmp_path: Path) -> Shell:
    return shell_without_server(tmp_path / "home")


def _requests(shell: Shell, mountpoint: Path) -> dict[str, float]:
    lines = shell.must("metrics", mountpoint).stdout.splitlines()
    found = (line.rsplit(" ", 1) for line in lines if line.startswith("headrace_fuse_requests_total"))
    return {name: float(count) for name, count in found}


def test_what_the_kernel_has_it_does_not_ask_for(alone: Shell, source: Path, tmp_path: Path) -> None:
    with alone.mounted(
        str(source), tmp_path / "mnt", *mode_words("view"), cache=tmp_path / "cache"
    ) as mountpoint:
        assert alone.status(mountpoint)["mounts"][0]["mode"] == "view"
        expected = tree_of(source)
        assert tree_of(mountpoint) == expected

        def asks_nothing() -> bool:
            """Not so while another test empties the page cache of the machine."""
            before = _requests(alone, mountpoint)
            assert before
            for path in sorted(mountpoint.iterdir()):
                with path.open("rb") as file:
                    assert not file.isatty()
                    assert file.read() == expected[path.name]
            return _requests(alone, mountpoint) == before

        wait_until(asks_nothing, lambda: _requests(alone, mountpoint))


def test_pages_are_asked_for_many_at_once(alone: Shell, source: Path, tmp_path: Path) -> None:
    """Linux joins them only where the image names the device of a file's content by its number."""
    small, expected = source / "small", b"".join(random.Random(1).randbytes(110_000) for _ in range(20))
    small.mkdir()
    for number in range(20):
        (small / f"{number:02}").write_bytes(expected[number * 110_000 : (number + 1) * 110_000])
    with alone.mounted(
        str(small), tmp_path / "mnt", *mode_words("view"), cache=tmp_path / "cache"
    ) as mountpoint:
        assert b"".join(path.read_bytes() for path in sorted(mountpoint.iterdir())) == expected
        requests = sum(count for name, count in _requests(alone, mountpoint).items() if '"read"' in name)
        assert 20 <= requests < len(expected) / 4096 / 4


def test_who_takes_a_view_off_leaves_nothing_behind(alone: Shell, source: Path, tmp_path: Path) -> None:
    mountpoint, state = tmp_path / "mnt", tmp_path / "state"
    mountpoint.mkdir()
    words = (*mode_words("view"), "--cache", f"{tmp_path / 'cache'}:1Gi", "--state-directory", state)
    alone.must("mount", source, mountpoint, *words)
    entry = registered(alone, mountpoint)
    # Nothing but the view is to be seen: the connection is mounted nowhere, the image has no name any more.
    assert [mount.kind for mount in mounts() if str(tmp_path) in mount.path] == ["erofs"]
    assert not [path for path in state.rglob("*") if "erofs" in path.name]
    subprocess.run(["umount", mountpoint], check=True)
    wait_until_ended(*(pid for pid, _ in entry.processes))
    assert alone.registry().entries() == []
    # And it can be mounted again.
    with alone.mounted(str(source), mountpoint, *mode_words("view"), cache=tmp_path / "cache"):
        assert tree_of(mountpoint) == tree_of(source)


def test_a_view_ends_when_the_last_program_has_closed_its_files(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    alone.must("mount", source, mountpoint, *mode_words("view"), "--cache", f"{tmp_path / 'cache'}:1Gi")
    entry = registered(alone, mountpoint)
    with (mountpoint / "part-03").open("rb", buffering=0) as held:
        assert "in use" in alone.run("unmount", mountpoint).stderr
        alone.must("unmount", "--lazy", mountpoint)
        assert held.read() == (source / "part-03").read_bytes()
    wait_until_ended(*(pid for pid, _ in entry.processes))


def test_a_view_shows_the_list_that_it_has_until_there_is_another(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    with alone.mounted(
        str(source), tmp_path / "mnt", *mode_words("view"), cache=tmp_path / "cache"
    ) as mountpoint:
        expected = tree_of(source)
        assert (mountpoint / "part-00").read_bytes() == expected["part-00"]
        (source / "new").write_bytes(b"new")
        assert "new" not in os.listdir(mountpoint)
        # What is gone at the origin and not here cannot be read; what is here can.
        (source / "part-00").unlink()
        (source / "part-11").write_bytes(b"other")
        assert (mountpoint / "part-00").read_bytes() == expected["part-00"]
        with pytest.raises(OSError, match=r"error|connected") as raised:
            (mountpoint / "part-11").read_bytes()
        assert raised.value.errno == errno.EIO


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "every user"),
        (("--allow-other", "--keeper", "/run/none"), "with a keeper"),
    ],
)
def test_what_a_view_cannot_do_is_said_before_it_begins(
    alone: Shell, source: Path, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    (tmp_path / "mnt").mkdir()
    refused = alone.run("mount", source, tmp_path / "mnt", "--mode", "view", *words)
    assert refused.code != 0
    assert told in refused.stderr
    assert "hint:" in refused.stderr
    assert not os.path.ismount(tmp_path / "mnt")


def test_a_state_folder_that_holds_no_image_is_named(alone: Shell, source: Path, tmp_path: Path) -> None:
    memory, mountpoint = tmp_path / "memory", tmp_path / "mnt"
    memory.mkdir()
    mountpoint.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", memory], check=True)
    try:
        words = (
            *mode_words("view"),
            "--state-directory",
            memory / "state",
            "--cache",
            f"{tmp_path / 'c'}:1Gi",
        )
        refused = alone.run("mount", source, mountpoint, *words)
        assert refused.code != 0
        assert str(memory / "state") in refused.stderr
        assert "no tmpfs" in refused.stderr
        assert not os.path.ismount(mountpoint)
    finally:
        subprocess.run(["umount", memory], check=True)


def test_a_process_that_cannot_go_on_gives_errors_and_no_wrong_bytes(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    """Both of a mount are killed at once, so that nobody goes on with it."""
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    alone.must("mount", source, mountpoint, *mode_words("view"), "--cache", f"{tmp_path / 'cache'}:1Gi")
    entry = registered(alone, mountpoint)
    expected = tree_of(source)
    assert (mountpoint / "part-00").read_bytes() == expected["part-00"]
    assert entry.supervisor_pid is not None
    for number in (signal.SIGSTOP, signal.SIGKILL):
        os.kill(entry.supervisor_pid, number)
        os.kill(entry.pid, number)
    wait_until_ended(entry.pid, entry.supervisor_pid)
    failed = set()
    for name, content in expected.items():
        try:
            assert (mountpoint / name).read_bytes() == content
        except OSError as error:
            failed.add(error.errno)
    assert failed == {errno.EIO}, "what the kernel does not have cannot be read"
    alone.must("unmount", mountpoint)
    assert not os.path.ismount(mountpoint)

"""A view goes on to the next list of files: the kernel shows another image at the same place."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.errors import DeadlineError
from headrace.roles.mountpoint import unmounted_process
from headrace.roles.mountpoint.mount_table import MountEntry, mount_at, mounts
from headrace.roles.mountpoint.mountpoints import unmount
from headrace.roles.mountpoint.other_namespaces import copies_of, users_of_the_detached
from headrace.roles.mountpoint.unmounted_process import end_unused_copies
from headrace.testing.faulty_origin import Fault, FaultyOrigin, Lie

from .harness import Shell, eventually, mode_words, tree_of
from .namespaces import holder
from .servers import Bucket
from .survival import (
    fill,
    is_running,
    kill_process,
    registered,
    shell_without_server,
    wait_until,
    wait_until_ended,
    wait_until_restarted,
)

OPEN_TREE_CLONE, AT_RECURSIVE = 1, 0x8000
MOVE_MOUNT_F_EMPTY_PATH = 4
SYS_OPEN_TREE, SYS_MOVE_MOUNT = 428, 429


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return fill(tmp_path / "source")


@pytest.fixture
def alone(tmp_path: Path) -> Shell:
    return shell_without_server(tmp_path / "home")


def _view(shell: Shell, source: Path, tmp_path: Path):
    return shell.mounted(str(source), tmp_path / "mnt", *mode_words("view"), cache=tmp_path / "cache")


def _shown(mountpoint: Path) -> MountEntry:
    there = mount_at(str(mountpoint))
    assert there is not None
    return there


def _system_call(number: int, *words: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(number, *words))
    assert result >= 0, os.strerror(ctypes.get_errno())
    return result


def _change(source: Path) -> None:
    (source / "part-00").write_bytes(b"changed")
    (source / "part-01").unlink()
    (source / "folder").mkdir()
    (source / "folder" / "new").write_bytes(b"new")


def test_who_opens_a_name_after_the_refresh_finds_what_the_new_list_says(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    with _view(alone, source, tmp_path) as mountpoint:
        before = tree_of(source)
        assert tree_of(mountpoint) == before
        with (
            (mountpoint / "part-00").open("rb", buffering=0) as changed,
            (mountpoint / "part-01").open("rb", buffering=0) as removed,
        ):
            _change(source)
            assert "1 added, 1 changed, 1 removed" in alone.must("refresh", mountpoint).talk
            assert tree_of(mountpoint) == tree_of(source)
            # Files that are open stay as they were, also what the kernel has forgotten of them.
            for file in (changed, removed):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert (changed.read(), removed.read()) == (before["part-00"], before["part-01"])
        assert [mount.kind for mount in mounts() if str(tmp_path) in mount.path] == ["erofs"]
        (source / "part-02").unlink()
        os.kill(registered(alone, mountpoint).pid, signal.SIGHUP)
        wait_until(lambda: tree_of(mountpoint) == tree_of(source), lambda: sorted(os.listdir(mountpoint)))


def test_a_list_that_says_the_same_leaves_the_page_cache_as_it_is(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    with _view(alone, source, tmp_path) as mountpoint:
        before = _shown(mountpoint)
        # More often than older lists are remembered.
        for _ in range(7):
            alone.must("refresh", mountpoint)
        assert _shown(mountpoint) == before
        assert tree_of(mountpoint) == tree_of(source)
        _change(source)
        alone.must("refresh", mountpoint)
        assert _shown(mountpoint) != before
        assert tree_of(mountpoint) == tree_of(source)


def test_who_stands_inside_sees_the_new_list_on_coming_in_again(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    with _view(alone, source, tmp_path) as mountpoint:
        inside = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
        try:
            names = sorted(os.listdir(inside))
            _change(source)
            alone.must("refresh", mountpoint)
            assert sorted(os.listdir(inside)) == names
            assert sorted(os.listdir(mountpoint)) == sorted(os.listdir(source))
        finally:
            os.close(inside)


def test_a_mount_ends_when_the_last_of_its_lists_is_left(alone: Shell, source: Path, tmp_path: Path) -> None:
    mountpoint, expected = tmp_path / "mnt", tree_of(source)
    mountpoint.mkdir()
    alone.must("mount", source, mountpoint, *mode_words("view"), "--cache", f"{tmp_path / 'cache'}:1Gi")
    entry = registered(alone, mountpoint)
    assert tree_of(mountpoint) == expected
    with (mountpoint / "part-01").open("rb", buffering=0) as held:
        os.posix_fadvise(held.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        _change(source)
        alone.must("refresh", mountpoint)
        subprocess.run(["umount", mountpoint], check=True)
        assert held.read() == expected["part-01"]
    wait_until_ended(*(pid for pid, _ in entry.processes))
    assert alone.registry().entries() == []


def test_who_keeps_a_mount_from_its_end_is_named_and_what_ends_it_all_the_same(
    alone: Shell, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unmounted_process, "_END_S", 3.0)
    with _view(alone, source, tmp_path) as mountpoint:
        assert tree_of(mountpoint) == tree_of(source)
        with (mountpoint / "part-01").open("rb", buffering=0):
            _change(source)
            alone.must("refresh", mountpoint)
            assert os.getpid() in users_of_the_detached()
            pids = [pid for pid, _ in registered(alone, mountpoint).processes]
            with pytest.raises(DeadlineError, match=r"open of a list from before a refresh: \d+") as told:
                unmount(mountpoint, alone.registry(), force=False, lazy=False)
            _, _, command = str(told.value.hint).partition("to end it at once: ")
            # Where the kernel's switches are not shown, the command shows them: to itself alone, here.
            subprocess.run(["unshare", "--mount", "sh", "-c", command], check=True)
            wait_until_ended(*pids)


@contextmanager
def _mapped_alone(path: Path) -> Iterator[None]:
    """A map whose descriptor is closed; Python's own keeps one beside it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    with path.open("rb") as file:
        length, no_offset = ctypes.c_size_t(4096), ctypes.c_long(0)
        address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_PRIVATE, file.fileno(), no_offset)
    assert address != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        assert libc.munmap(ctypes.c_void_p(address), length) == 0


def test_who_has_mapped_an_earlier_list_and_closed_its_descriptor_is_a_user_of_it(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    with _view(alone, source, tmp_path) as mountpoint:
        with _mapped_alone(mountpoint / "part-01"):
            assert os.getpid() not in users_of_the_detached()
            _change(source)
            alone.must("refresh", mountpoint)
            assert os.getpid() in users_of_the_detached()
        assert os.getpid() not in users_of_the_detached()


def test_who_has_a_file_of_another_file_system_that_is_on_no_folder_is_no_user_of_a_view(
    tmp_path: Path,
) -> None:
    """A process in a container has cache files of another one, and the device of FUSE, without a sight of theirs."""
    place = tmp_path / "place"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "dev", "tmpfs", place], check=True)
    try:
        (place / "data").write_bytes(bytes(8192))
        os.mknod(place / "fuse", stat.S_IFCHR | 0o600, os.makedev(10, 229))
        with (
            (place / "data").open("rb"),
            (place / "fuse").open("rb", buffering=0),
            _mapped_alone(place / "data"),
        ):
            subprocess.run(["umount", "--lazy", place], check=True)
            assert os.getpid() not in users_of_the_detached()
    finally:
        subprocess.run(["umount", "--lazy", "--quiet", place], check=False)


def test_who_has_a_file_of_a_mount_that_has_ended_is_no_user_of_a_view(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    alone.must("mount", source, mountpoint, "--mode", "classic", "--cache", f"{tmp_path / 'cache'}:1Gi")
    with (mountpoint / "part-01").open("rb", buffering=0):
        alone.must("unmount", "--force", mountpoint)
        assert os.getpid() not in users_of_the_detached()


def test_force_ends_a_view_though_files_of_it_are_open(alone: Shell, source: Path, tmp_path: Path) -> None:
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    alone.must("mount", source, mountpoint, *mode_words("view"), "--cache", f"{tmp_path / 'cache'}:1Gi")
    entry = registered(alone, mountpoint)
    with (mountpoint / "part-01").open("rb", buffering=0) as of_an_older_list:
        _change(source)
        alone.must("refresh", mountpoint)
        with (mountpoint / "part-02").open("rb", buffering=0) as of_this_list:
            alone.must("unmount", "--force", mountpoint)
            wait_until_ended(*(pid for pid, _ in entry.processes))
            for file in (of_an_older_list, of_this_list):
                with pytest.raises(OSError, match="error"):
                    file.read()


def test_a_process_that_goes_on_with_a_view_shows_further_lists(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    with _view(alone, source, tmp_path) as mountpoint:
        for number in range(3):
            (source / f"new-{number}").write_bytes(b"new")
            beyond = kill_process(alone, mountpoint)
            wait_until_restarted(alone, mountpoint, beyond=beyond)
            alone.must("refresh", mountpoint)
            assert tree_of(mountpoint) == tree_of(source)
        # Also the one that was the supervisor before, or whose supervisor is another one.
        entry = registered(alone, mountpoint)
        assert entry.supervisor_pid is not None
        os.kill(entry.supervisor_pid, signal.SIGKILL)
        wait_until_restarted(alone, mountpoint, beyond=entry.restarts)
        _change(source)
        alone.must("refresh", mountpoint)
        assert tree_of(mountpoint) == tree_of(source)


def test_a_process_that_dies_between_two_lists_leaves_the_newer_one(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    with _view(alone, source, tmp_path) as mountpoint:
        _change(source)
        older = _system_call(SYS_OPEN_TREE, -100, os.fsencode(mountpoint), OPEN_TREE_CLONE)
        try:
            alone.must("refresh", mountpoint)
            # As it is for a moment of each refresh: the new list is there, the old one lies above it.
            words = (older, b"", -100, os.fsencode(mountpoint), MOVE_MOUNT_F_EMPTY_PATH)
            _system_call(SYS_MOVE_MOUNT, *words)
        finally:
            os.close(older)
        assert "new" not in os.listdir(mountpoint)
        wait_until_restarted(alone, mountpoint, beyond=kill_process(alone, mountpoint))
        assert tree_of(mountpoint) == tree_of(source)
        assert len([mount for mount in mounts() if mount.path == str(mountpoint)]) == 1


def test_what_lies_above_a_view_is_named_and_left_there(alone: Shell, source: Path, tmp_path: Path) -> None:
    with _view(alone, source, tmp_path) as mountpoint:
        _change(source)
        subprocess.run(["mount", "-t", "tmpfs", "above", mountpoint], check=True)
        try:
            refused = alone.run("refresh", str(tmp_path / "mnt"))
            assert refused.code != 0
            assert "something else is on top" in refused.stderr
            assert os.listdir(mountpoint) == []
        finally:
            subprocess.run(["umount", mountpoint], check=True)
        alone.must("refresh", mountpoint)
        assert tree_of(mountpoint) == tree_of(source)


def test_another_mount_namespace_keeps_the_list_that_it_has(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    with _view(alone, source, tmp_path) as mountpoint:
        names = sorted(os.listdir(mountpoint))
        command = ["unshare", "--mount", "sh", "-c", 'read _ && ls "$0"', str(mountpoint)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as elsewhere:
            own = os.stat("/proc/self/ns/mnt").st_ino
            wait_until(
                lambda: os.stat(f"/proc/{elsewhere.pid}/ns/mnt").st_ino != own,
                lambda: "it has no namespace of its own",
            )
            _change(source)
            alone.must("refresh", mountpoint)
            told, _ = elsewhere.communicate("go on\n")
            assert told.split() == names
        assert tree_of(mountpoint) == tree_of(source)


def test_a_view_ends_though_another_namespace_has_an_earlier_list(
    alone: Shell, source: Path, tmp_path: Path
) -> None:
    expected = tree_of(source)
    # Beside another view, whose processes have its connection open, which is on no folder either.
    other = alone.mounted(
        str(source), tmp_path / "other", *mode_words("view"), cache=tmp_path / "other-cache"
    )
    with other, _view(alone, source, tmp_path) as mountpoint, holder(""):
        assert tree_of(mountpoint) == expected
        _change(source)
        alone.must("refresh", mountpoint)
        alone.must("unmount", mountpoint)


def test_an_earlier_list_that_is_used_is_left_to_its_user(alone: Shell, source: Path, tmp_path: Path) -> None:
    expected = tree_of(source)
    with _view(alone, source, tmp_path) as mountpoint:
        assert tree_of(mountpoint) == expected
        entry = registered(alone, mountpoint)
        there = _shown(mountpoint)
        with holder(""), (mountpoint / "part-01").open("rb", buffering=0) as held:
            _change(source)
            alone.must("refresh", mountpoint)
            copies = copies_of(there)
            assert copies
            subprocess.run(["umount", mountpoint], check=True)
            end_unused_copies(copies, entry.connection)
            os.posix_fadvise(held.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert held.read() == expected["part-01"]
            held.close()
            wait_until(
                lambda: (end_unused_copies(copies, entry.connection), not is_running(entry.pid))[1],
                lambda: "it is still there",
            )


def test_a_view_is_there_at_once_and_shows_the_new_list_when_the_storage_has_told_it(
    shell: Shell, liar: FaultyOrigin, lying_bucket: Bucket, tmp_path: Path
) -> None:
    lying_bucket.fill({"old": b"1", "same": b"2"})
    words = (*mode_words("view"), "--snapshot", "revalidate")
    arguments = {"cache": tmp_path / "cache", "options": lying_bucket.options}
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", *words, **arguments):
        pass
    lying_bucket.fill({"old": b"one", "new": b"3"})
    held = liar.add(Fault(Lie.HELD, r"list-type=2"))
    with shell.mounted(lying_bucket.uri, tmp_path / "mnt", *words, **arguments) as mountpoint:
        eventually(lambda: held.done, lambda: f"not asked for a list: {liar.requests}")
        assert sorted(os.listdir(mountpoint)) == ["old", "same"]
        liar.clear()
        held.released.set()
        eventually(lambda: "new" in os.listdir(mountpoint), lambda: shell.status(mountpoint)["snapshot"])
        assert tree_of(mountpoint) == {"old": b"one", "same": b"2", "new": b"3"}

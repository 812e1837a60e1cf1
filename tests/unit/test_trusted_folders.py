"""Another user of the machine cannot have us use a folder or a file that is his to change."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.errors import RefusedError
from headrace.trusted_folders import check_above, check_folder, make_folder, open_file

STRANGER = 65534
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


def by_stranger(act: Callable[[], object]) -> None:
    """Has another user do this."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()


@pytest.fixture
def shared(place: Path) -> Path:
    """One like /tmp and /dev/shm: everybody may make folders in it."""
    folder = place / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_a_missing_folder_is_made_for_us_alone_and_used_again(shared: Path) -> None:
    folder = shared / "above" / "cache"
    before = os.umask(0)
    try:
        for _ in range(2):
            make_folder(folder)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o7777 == 0o700
    assert folder.parent.stat().st_mode & 0o7777 == 0o755
    check_folder(folder)


@as_root
@pytest.mark.root
def test_a_folder_that_a_stranger_made_first_is_refused_at_any_level(shared: Path) -> None:
    by_stranger(lambda: (shared / "squatted" / "cache").mkdir(parents=True))
    for folder in (shared / "squatted", shared / "squatted" / "cache", shared / "squatted" / "new"):
        for use in (make_folder, check_above):
            with pytest.raises(RefusedError, match=rf"{shared}/squatted is not safe.* belongs to user 65534"):
                use(folder)
    assert not (shared / "squatted" / "new").exists()


@as_root
@pytest.mark.root
def test_a_folder_that_was_given_to_a_stranger_later_is_refused(place: Path) -> None:
    folder = make_folder(place / "cache")
    os.chown(folder, STRANGER, STRANGER)
    with pytest.raises(RefusedError, match="belongs to user 65534") as caught:
        make_folder(folder)
    assert caught.value.hint


@as_root
@pytest.mark.root
def test_a_stranger_s_link_is_refused_wherever_it_leads(place: Path, shared: Path) -> None:
    precious = make_folder(place / "precious")
    by_stranger(lambda: (shared / "cache").symlink_to(precious))
    for folder in (shared / "cache", shared / "cache" / "below"):
        with pytest.raises(RefusedError, match="is a link that user 65534"):
            make_folder(folder)
    assert list(precious.iterdir()) == []


def test_a_link_of_ours_in_a_folder_of_ours_is_followed(place: Path) -> None:
    disk = make_folder(place / "disk")
    (place / "absolute").symlink_to(disk)
    (place / "relative").symlink_to("disk/../disk")
    make_folder(place / "absolute" / "one")
    make_folder(place / "relative" / "two")
    assert sorted(path.name for path in disk.iterdir()) == ["one", "two"]


def test_a_link_in_a_folder_that_everybody_may_write_to_is_refused_even_if_it_is_ours(
    place: Path, shared: Path
) -> None:
    (shared / "link").symlink_to(place)
    with pytest.raises(RefusedError, match="is a link"):
        make_folder(shared / "link" / "cache")


def test_links_in_a_circle_are_an_error(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        make_folder(place / "a")


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
def test_a_level_that_others_may_change_is_refused_until_it_is_sticky(place: Path, mode: int) -> None:
    open_to_others = place / "open"
    open_to_others.mkdir()
    if os.geteuid() == 0:
        os.chown(open_to_others, 0, 100)
    open_to_others.chmod(mode)
    if mode == 0o775 and os.geteuid() != 0:
        pytest.skip("the group is this user's own")
    with pytest.raises(RefusedError, match="may change what is in it"):
        make_folder(open_to_others / "cache")
    open_to_others.chmod(mode | 0o1000)
    make_folder(open_to_others / "cache")
    # The folder itself may not even be sticky: what lies in it would be another user's.
    with pytest.raises(RefusedError, match="may write to it"):
        make_folder(open_to_others)


def test_a_group_that_is_its_owner_s_alone_is_nobody_else(place: Path) -> None:
    folder = place / "mine"
    folder.mkdir()
    os.chown(folder, -1, os.geteuid())
    folder.chmod(0o775)
    make_folder(folder / "cache")
    make_folder(folder)


def test_a_folder_that_is_named_as_trusted_is_used_whoever_may_write_to_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an emptyDir of Kubernetes: everybody may write to it, and nobody else reaches it."""
    volume = place / "volume"
    volume.mkdir()
    volume.chmod(0o2777)
    monkeypatch.setenv("HEADRACE_TRUSTED_FOLDERS", f"/elsewhere:{volume}")
    make_folder(volume)
    make_folder(volume / "above" / "cache")
    if os.geteuid() == 0:
        # As root is another user on a network's disk.
        os.chown(volume / "above", STRANGER, STRANGER)
    os.close(open_file(make_folder(volume / "above" / "cache") / "log", APPEND))
    (place / "other").mkdir()
    (place / "other").chmod(0o2777)
    with pytest.raises(RefusedError):
        make_folder(place / "other" / "cache")


def test_a_file_in_the_way_is_no_folder(place: Path) -> None:
    (place / "file").touch()
    for folder in (place / "file", place / "file" / "below"):
        with pytest.raises(NotADirectoryError):
            make_folder(folder)


def test_a_file_of_ours_is_opened_in_a_shared_folder_too(shared: Path) -> None:
    for word in (b"a", b"b"):
        descriptor = open_file(shared / "log", APPEND)
        os.write(descriptor, word)
        os.close(descriptor)
    assert (shared / "log").read_bytes() == b"ab"
    os.close(open_file(shared / "log", os.O_WRONLY | os.O_TRUNC))
    assert (shared / "log").read_bytes() == b""
    os.close(open_file(Path(os.devnull), os.O_WRONLY))


def test_a_file_is_not_opened_where_others_could_put_another_in_its_place(shared: Path) -> None:
    shared.chmod(0o777)
    with pytest.raises(RefusedError, match="every user may change what is in it"):
        open_file(shared / "log", APPEND)
    assert not (shared / "log").exists()


@as_root
@pytest.mark.root
@pytest.mark.parametrize("planted", ["link", "file", "pipe", "hard link"])
def test_what_a_stranger_planted_in_the_place_of_a_file_is_not_opened_nor_emptied(
    place: Path, shared: Path, planted: str
) -> None:
    precious = place / "precious"
    precious.write_text("years of work")
    log = shared / "log"
    if planted == "link":
        by_stranger(lambda: log.symlink_to(precious))
    elif planted == "file":
        by_stranger(lambda: log.write_text("mine"))
    elif planted == "pipe":
        by_stranger(lambda: os.mkfifo(log))
    else:
        log.hardlink_to(precious)
    for flags in (APPEND, os.O_RDWR | os.O_CREAT | os.O_TRUNC):
        with pytest.raises(OSError):  # a pipe without a reader has an errno of its own
            open_file(log, flags)
    assert precious.read_text() == "years of work"

"""Folders of a node are given to the user of a role, and nothing else is: whatever lies in their places."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.errors import RefusedError
from headrace.roles.node.own_folders import Owner, give_cache, give_state
from headrace.roles.node.sweeping import sweep

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")]

OWNER = Owner(12345, 12346)


def owner_of(path: Path) -> tuple[int, int]:
    facts = path.lstat()
    return facts.st_uid, facts.st_gid


def as_user(owner: Owner, act: Callable[[], object]) -> int:
    """The exit code of a process of that user that does this."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(owner.gid)
            os.setuid(owner.uid)
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def place() -> Iterator[Path]:
    """A place that any user can reach, unlike the folders of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        made = Path(folder, "place")
        made.mkdir()
        yield made


def test_the_user_can_write_into_its_folders_and_nobody_else_can_read_them(place: Path) -> None:
    give_cache(place, "team/one", OWNER)
    give_state(place, "worker-0", OWNER)
    for folder in (place / "team" / "one", place / "worker-0"):
        assert owner_of(folder) == (OWNER.uid, OWNER.gid)
        assert as_user(OWNER, (folder / "data").mkdir) == 0
        assert as_user(Owner(54321, 54321), lambda folder=folder: os.listdir(folder)) == 1
    assert owner_of(place / "team") == (0, 0)


def test_what_the_user_has_cached_stays(place: Path) -> None:
    for _ in range(2):
        give_cache(place, "team/one", OWNER)
        give_state(place, "worker-0", OWNER)
        (place / "team" / "one" / "data").mkdir(exist_ok=True)
        (place / "worker-0" / "note").touch()
    assert (place / "team" / "one" / "data").is_dir()
    assert (place / "worker-0" / "note").exists()


def test_what_another_user_has_cached_is_removed_and_sweeping_takes_it_all(place: Path) -> None:
    give_cache(place, "team/one", OWNER)
    (place / "team" / "one" / "data").mkdir()
    other = Owner(OWNER.uid + 1, OWNER.gid)
    give_cache(place, "team/one", other)
    assert owner_of(place / "team" / "one") == (other.uid, other.gid)
    assert not (place / "team" / "one" / "data").exists()
    sweep("team/one", place / "node", [place])
    assert not (place / "team").exists()


def test_a_folder_with_strangers_files_is_refused_and_stays(place: Path) -> None:
    (place / "team" / "one").mkdir(parents=True)
    (place / "team" / "one" / "thesis.tex").write_text("years of work")
    with pytest.raises(RefusedError, match=r"thesis\.tex"):
        give_cache(place, "team/one", OWNER)
    assert owner_of(place / "team" / "one") == (0, 0)
    assert (place / "team" / "one" / "thesis.tex").exists()


@pytest.mark.parametrize("planted", ["team", "team/one"])
def test_a_link_is_not_followed(place: Path, tmp_path: Path, planted: str) -> None:
    precious = tmp_path / "precious"
    (precious / "one").mkdir(parents=True)
    (place / planted).parent.mkdir(exist_ok=True)
    (place / planted).symlink_to(precious)
    with pytest.raises(RefusedError, match="is a link"):
        give_cache(place, "team/one", OWNER)
    assert owner_of(precious) == owner_of(precious / "one") == (0, 0)


def test_a_link_within_what_is_removed_is_not_followed(place: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    (precious / "data").mkdir(parents=True)
    (place / "worker-0").mkdir()
    (place / "worker-0" / "link").symlink_to(precious)
    give_state(place, "worker-0", OWNER)
    assert (precious / "data").is_dir()
    assert owner_of(precious) == (0, 0)
    assert os.listdir(place / "worker-0") == []


def test_a_namespace_s_folder_that_another_user_made_is_refused(place: Path) -> None:
    """As in /dev/shm, where anybody may make folders, and could change what is in them later."""
    place.chmod(0o1777)
    assert as_user(Owner(54321, 54321), (place / "team").mkdir) == 0
    with pytest.raises(RefusedError, match="user 54321 owns it"):
        give_cache(place, "team/one", OWNER)


def test_a_file_in_the_place_of_a_folder_is_refused(place: Path) -> None:
    (place / "team").mkdir()
    (place / "team" / "one").write_text("notes")
    with pytest.raises(RefusedError, match="no folder"):
        give_cache(place, "team/one", OWNER)
    assert (place / "team" / "one").read_text() == "notes"

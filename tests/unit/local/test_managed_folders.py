from __future__ import annotations

import contextlib
import threading
import time
from itertools import count
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.local.nodes.managed_folders import ManagedFolders, remove_tree


def test_what_was_made_goes_and_what_was_there_stays(database, tmp_path) -> None:
    folders, found = ManagedFolders(database), tmp_path / "found"
    found.mkdir()
    made = folders.make(tmp_path / "disk" / "cache" / "node-1")
    folders.make(found)
    for folder in (made, found):
        (folder / "block").write_bytes(b"x")
    (tmp_path / "disk" / "theirs").write_text("kept")
    folders.remove(keep=False)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["disk", "found"]
    assert list(found.iterdir()) == []
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["theirs"]


def test_a_folder_with_files_of_others_is_refused(database, tmp_path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").touch()
    with pytest.raises(ConfigError, match="not empty, and not of this backend"):
        ManagedFolders(database).make(tmp_path / "photos")
    ManagedFolders(database).remove(keep=False)
    assert (tmp_path / "photos" / "one.jpg").exists()


def test_our_own_folder_is_taken_again_with_what_is_in_it(database, tmp_path) -> None:
    cache = ManagedFolders(database).make(tmp_path / "cache")
    (cache / "block").touch()
    assert ManagedFolders(database).make(cache) == cache
    assert (cache / "block").exists()


def test_kept_caches_are_left(database, tmp_path) -> None:
    folders = ManagedFolders(database)
    cache = folders.make(tmp_path / "cache")
    (cache / "block").touch()
    assert folders.caches() == [cache]
    folders.remove(keep=True)
    assert (cache / "block").exists()


def test_a_tree_goes_but_for_what_is_kept(tmp_path) -> None:
    outside = tmp_path / "outside"
    (outside / "theirs").mkdir(parents=True)
    tree = tmp_path / "tree"
    (tree / "a" / "cache").mkdir(parents=True)
    (tree / "b").mkdir()
    (tree / "link").symlink_to(outside)
    remove_tree(tree, keep=[tree / "a" / "cache"])
    assert (tree / "a" / "cache").is_dir()
    assert [path.name for path in tree.iterdir()] == ["a"]
    assert (outside / "theirs").is_dir()


def test_a_tree_goes_although_somebody_who_ends_still_writes_into_it(tmp_path) -> None:
    tree = tmp_path / "tree"
    (tree / "shard").mkdir(parents=True)
    late = threading.Event()

    def write() -> None:
        while not late.is_set():
            with contextlib.suppress(FileNotFoundError):
                (tree / "shard" / str(time.monotonic_ns())).touch()

    transaction = threading.Thread(target=write)
    transaction.start()
    try:
        threading.Timer(0.3, late.set).start()
        remove_tree(tree)
    finally:
        late.set()
        transaction.join()
    assert not tree.exists()


def test_a_folder_that_cannot_be_removed_stays_written_down(database, tmp_path, monkeypatch) -> None:
    folders = ManagedFolders(database)
    cache = folders.make(tmp_path / "cache" / "node-1")
    monkeypatch.setattr("headrace.local.nodes.managed_folders.remove_tree", lambda _path: None)
    folders.drop(cache)
    monkeypatch.undo()
    folders.remove(keep=False)
    assert not (tmp_path / "cache").exists()


def test_one_folder_goes_alone_with_what_is_empty_above_it(database, tmp_path) -> None:
    folders = ManagedFolders(database)
    first, second = (folders.make(tmp_path / "disk" / "cache" / f"node-{number}") for number in (1, 2))
    (first / "block").write_bytes(b"x")
    folders.drop(first)
    assert (first.exists(), second.exists()) == (False, True)
    folders.drop(second)
    assert not (tmp_path / "disk").exists()
    assert folders.caches() == []


def test_a_folder_that_is_not_ours_is_not_dropped(database, tmp_path) -> None:
    (tmp_path / "photos").mkdir()
    ManagedFolders(database).drop(tmp_path / "photos")
    assert (tmp_path / "photos").exists()


def test_a_file_to_mount_at_is_made_for_now_and_goes_with_its_folders(database, tmp_path) -> None:
    folders = ManagedFolders(database)
    path = tmp_path / "made" / "a.conf"
    folders.stand_file(path)
    folders.stand_file(path)
    assert path.read_bytes() == b""
    assert folders.caches() == []
    folders.unstand(path, [path])
    assert path.exists()
    folders.unstand(path, [])
    assert not path.parent.exists()


def test_a_file_that_is_there_or_was_written_to_stays(database, tmp_path) -> None:
    folders = ManagedFolders(database)
    there, made = tmp_path / "there", tmp_path / "made"
    there.write_text("content")
    for path in (there, made):
        folders.stand_file(path)
    made.write_text("content")
    for path in (there, made):
        folders.unstand(path, [])
    folders.remove(keep=False)
    assert (there.read_text(), made.read_text()) == ("content", "content")
    with pytest.raises(ConfigError, match="is no file"):
        folders.stand_file(tmp_path)


@pytest.mark.parametrize("commits", [1, 2])
def test_the_folders_above_go_although_who_drops_the_cache_dies_at_a_commit(
    database, tmp_path, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    folders = ManagedFolders(database)
    cache = folders.make(tmp_path / "disk" / "default" / "cache")
    strike, numbers = ManagedFolders._strike, count(1)

    def die(self: ManagedFolders, *paths: Path) -> None:
        strike(self, *paths)
        if next(numbers) == commits:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(ManagedFolders, "_strike", die)
        folders.drop(cache)
    # Who comes next still finds it among the settings of its role.
    folders.drop(cache)
    assert not (tmp_path / "disk").exists()

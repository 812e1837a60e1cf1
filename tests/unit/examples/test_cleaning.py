from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from experiment import cleaning
from experiment.storage import s3fs_command


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """(the folder for temporary files, the cache)."""
    temporary, cache = tmp_path / "tmp", tmp_path / "cache"
    for folder in (temporary, cache):
        folder.mkdir()
    monkeypatch.setattr(cleaning.tempfile, "gettempdir", lambda: str(temporary))
    # Networks of the machine are none of this test's.
    monkeypatch.setattr(cleaning, "can_make_namespaces", lambda: False)
    return temporary, cache


def name_of_a_dead_process() -> str:
    code = "from experiment.cleaning import own_name; print(own_name())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    return done.stdout.strip()


def test_what_a_killed_experiment_left_is_removed_by_the_next(places: tuple[Path, Path]) -> None:
    name = name_of_a_dead_process()
    for place in places:
        (place / name / "deep").mkdir(parents=True)
        (place / name / "deep" / "file").touch()
    assert sorted(cleaning.remove_leftovers(places[1])) == sorted(place / name for place in places)
    assert [list(place.iterdir()) for place in places] == [[], []]


def test_what_lives_or_is_somebody_elses_is_left_alone(places: tuple[Path, Path]) -> None:
    with cleaning.work_folders(places[1]) as (work, caches):
        other = places[0] / "headrace-resnet-mine"
        other.mkdir()
        assert cleaning.remove_leftovers(places[1]) == []
        assert work.is_dir()
        assert caches.is_dir()
        assert other.is_dir()


def test_nothing_is_left_when_an_experiment_ends_by_an_error(places: tuple[Path, Path]) -> None:
    with pytest.raises(RuntimeError), cleaning.work_folders(places[1]) as (work, _):
        (work / "file").touch()
        raise RuntimeError
    assert [list(place.iterdir()) for place in places] == [[], []]


def test_keys_are_in_no_command_line() -> None:
    assert not [
        word for word in s3fs_command("http://storage:1", Path("/mnt")) if "secret" in word or "key" in word
    ]

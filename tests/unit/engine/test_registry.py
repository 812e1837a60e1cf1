from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry, own_entry
from headrace.errors import MissingFileError
from headrace.process.stat import started_ticks


def entry(mountpoint: str, name: str = "train", **changed: object):
    fields = {
        "name": name,
        "mountpoint": mountpoint,
        "state_directory": "/s",
        "origins": ("s3://b",),
        "mode": "classic",
    }
    return own_entry(**{**fields, **changed})


def test_entry_is_found_by_mountpoint_path_below_and_name(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "run")
    registry.add(entry("/mnt/data"))
    registry.add(entry("/mnt/data/inner", name="inner"))
    for target, expected in (
        ("/mnt/data", "train"),
        ("/mnt/data/a/b", "train"),
        ("/mnt/data/inner/x", "inner"),
        ("/mnt/data/innermost", "train"),
        ("inner", "inner"),
    ):
        assert registry.get(target).name == expected, target
    assert [found.mountpoint for found in registry.entries()] == ["/mnt/data", "/mnt/data/inner"]


def test_what_is_not_mounted_is_not_found(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "absent")
    assert registry.entries() == []
    registry.add(entry("/mnt/data"))
    for target in ("/mnt", "/mnt/database", "other"):
        with pytest.raises(MissingFileError, match="nothing is mounted"):
            registry.get(target)


def test_entry_of_a_dead_process_is_cleaned(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    registry.add(entry("/mnt/dead", pid=process.pid))
    assert registry.entries() == []
    assert list(tmp_path.iterdir()) == []


def test_entry_whose_process_number_was_given_away_is_stale(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.add(entry("/mnt/other", started_ticks=1))
    assert registry.entries() == []


def test_an_entry_that_took_the_place_of_a_stale_one_is_not_cleaned_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a mount in another pod, which begins while somebody looks at what the one before has left."""
    registry, read = Registry(tmp_path), Registry._read

    def read_before_it_is_replaced(file: Path) -> Entry | None:
        found = read(file)
        monkeypatch.setattr(Registry, "_read", staticmethod(read))
        registry.add(entry("/mnt/data", name="next"))
        return found

    registry.add(entry("/mnt/data", name="stale", started_ticks=1))
    monkeypatch.setattr(Registry, "_read", staticmethod(read_before_it_is_replaced))
    assert registry.entries() == []
    assert registry.get("/mnt/data").name == "next"
    assert len(list(tmp_path.iterdir())) == 1


def test_damaged_entry_is_passed_over(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.add(entry("/mnt/data"))
    (tmp_path / "broken.json").write_text("{")
    assert len(registry.entries()) == 1


def test_an_entry_is_read_as_it_was_written() -> None:
    written = entry("/mnt/data", log_file="/log", supervisor_pid=1, connection="0:47")
    assert Entry.from_json(written.to_json().encode()) == written


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": "7"},
        {"pid": True},
        {"pid": None},
        {"origins": "s3://b"},
        {"origins": [1]},
        {"mode": ["view"]},
        {"log_file": 7},
        {"added_by_a_stranger": 1},
    ],
)
def test_what_is_no_entry_is_refused(changed: dict[str, object]) -> None:
    told = json.loads(entry("/mnt/data").to_json())
    with pytest.raises(ValueError, match="mount"):
        Entry.from_json(json.dumps(told | changed).encode())


@pytest.mark.parametrize("text", [b"", b"{", b"7", b"[]", b"{}", b"\xff"])
def test_what_is_no_json_of_an_entry_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Entry.from_json(text)


def test_only_its_writer_removes_an_entry(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    mine = entry("/mnt/data")
    registry.add(mine)
    registry.remove("/mnt/data", pid=mine.pid + 1)
    assert len(registry.entries()) == 1
    registry.remove("/mnt/data", pid=mine.pid)
    assert registry.entries() == []


def test_start_of_a_process_that_is_not_there() -> None:
    assert started_ticks(2**30) is None


def test_the_last_word_of_a_mount_is_taken_once_and_not_by_the_next_mount(tmp_path: Path) -> None:
    registry, mount = Registry(tmp_path), entry("/mnt/data")
    registry.add(mount)
    registry.leave_word("/mnt/data", "not closed")
    assert registry.take_word(mount) == "not closed"
    assert registry.take_word(mount) is None
    registry.leave_word("/mnt/data", "not closed")
    registry.add(mount)
    assert registry.take_word(mount) is None

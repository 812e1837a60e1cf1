"""The file that says how far a copy is."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.status import JobReport
from headrace.roles.processes.progress import Pace, ProgressFile, parse_progress, read_progress


def test_what_is_told_is_read_by_whoever_looks(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "progress.json"
    file = ProgressFile(path)
    file.tell(JobReport(done_bytes=5, total_bytes=10, done_files=1, total_files=2))
    first = read_progress(path)
    assert first is not None
    assert (first.state, first.done_bytes, first.total_files, first.ended_at) == ("running", 5, 2, None)
    file.tell(JobReport(state="failed", errors=("a: gone",), message="1 failed"))
    last = read_progress(path)
    assert last is not None
    assert (last.state, last.errors, last.message) == ("failed", ("a: gone",), "1 failed")
    assert last.ended_at is not None
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_what_could_not_begin_says_why(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    ProgressFile(path).fail("bucket b does not exist")
    told = read_progress(path)
    assert told is not None
    assert (told.state, told.total_files, told.message) == ("failed", 0, "bucket b does not exist")


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"format": 1, "state": "odd"}'])
def test_a_file_that_is_none_says_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "progress.json"
    assert read_progress(path) is None
    path.write_bytes(content)
    assert read_progress(path) is None


def test_rate_is_that_of_the_last_seconds() -> None:
    pace = Pace()
    assert pace.of(0, 1000, 0.0) == (0.0, None)
    assert pace.of(100, 1000, 10.0) == (10.0, 90.0)
    assert pace.of(100, 1000, 100.0) == (0.0, None)


def test_last_word_is_written_in_place_and_at_the_end_alone(tmp_path: Path) -> None:
    mounted = tmp_path / "termination-log"
    mounted.touch()
    inode = mounted.stat().st_ino
    file = ProgressFile(None, mounted)
    file.tell(JobReport(done_bytes=5, total_bytes=10, done_files=1, total_files=2))
    assert mounted.read_text() == ""
    file.tell(JobReport(state="failed", errors=("a: gone",), message="1 failed"))
    told = parse_progress(mounted.read_text())
    assert told is not None
    assert (told.state, told.faults, told.errors) == ("failed", 1, ("a: gone",))
    assert mounted.stat().st_ino == inode


@pytest.mark.parametrize("letter", ["x", "\u00e4", "\U0001f980", "\x01"])
def test_last_word_fits_into_what_kubernetes_keeps_and_counts_all_faults(tmp_path: Path, letter: str) -> None:
    word = tmp_path / "termination-log"
    long = letter * 3000
    ProgressFile(None, word).tell(JobReport(state="failed", errors=(long,) * 100, message=long))
    assert len(word.read_bytes()) <= 4096
    told = parse_progress(word.read_text())
    assert told is not None
    assert (told.faults, told.state) == (100, "failed")

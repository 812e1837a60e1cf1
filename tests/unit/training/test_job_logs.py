"""Logs of instances: every line once, with its time, through changes of files."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.local.jobs.instance_log import LONGEST_PART_BYTES, InstanceLog, older_file
from headrace.local.jobs.log_reader import LogQuery, follow, lines_of


class Clock:
    def __init__(self) -> None:
        self.now_s = datetime(2026, 1, 31, tzinfo=UTC).timestamp()

    def __call__(self) -> float:
        self.now_s += 1
        return self.now_s


def texts(path: Path, **query: object) -> list[bytes]:
    return [line.text for line in lines_of(path, LogQuery(**query))]  # type: ignore[arg-type]


@given(st.lists(st.binary(max_size=40)))
def test_lines_are_what_was_written_however_it_came(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.log"
    book = InstanceLog(path, 1 << 20)
    for piece in pieces:
        book.write(piece)
    book.close()
    whole = b"".join(pieces)
    expected = whole.split(b"\n")
    assert texts(path) == (expected if expected[-1] else expected[:-1])


def test_a_long_line_is_one_line_again(tmp_path: Path) -> None:
    book = InstanceLog(tmp_path / "a.log", 1 << 20)
    line = b"x" * (3 * LONGEST_PART_BYTES + 5)
    for start in range(0, len(line), 1000):
        book.write(line[start : start + 1000])
    book.write(b"\nnext\n")
    book.close()
    assert texts(tmp_path / "a.log") == [line, b"next"]


def test_tail_since_and_times(tmp_path: Path) -> None:
    book = InstanceLog(tmp_path / "a.log", 1 << 20, Clock())
    for number in range(5):
        book.write(b"%d\n" % number)
    book.close()
    assert texts(tmp_path / "a.log", tail=2) == [b"3", b"4"]
    since = datetime(2026, 1, 31, 0, 0, 4, tzinfo=UTC)
    assert texts(tmp_path / "a.log", since=since) == [b"3", b"4"]
    query = LogQuery(since=since, tail=1, timestamps=True, before=b"[a] ")
    (line,) = lines_of(tmp_path / "a.log", query)
    assert line.shown(query) == b"[a] 2026-01-31T00:00:05.000000Z 4\n"


def test_a_log_has_a_bounded_size_and_keeps_the_end(tmp_path: Path) -> None:
    path, limit_bytes = tmp_path / "a.log", 10_000
    book = InstanceLog(path, limit_bytes)
    for number in range(2000):
        book.write(b"line %d\n" % number)
    book.close()
    assert path.stat().st_size + older_file(path).stat().st_size <= limit_bytes
    kept = texts(path)
    assert kept[-1] == b"line 1999"
    assert kept == [b"line %d" % number for number in range(2000 - len(kept), 2000)]


def test_who_follows_sees_each_line_once_through_changes_of_files(tmp_path: Path) -> None:
    path = tmp_path / "a.log"

    async def both() -> bytes:
        goes_on = True
        observed = bytearray()

        async def write() -> None:
            nonlocal goes_on
            book = InstanceLog(path, 8_000)
            for number in range(600):
                book.write(b"line %d\n" % number)
                # The reader would lose what is thrown away before it looks.
                while number % 50 == 0 and b"line %d\n" % number not in observed:
                    await asyncio.sleep(0.01)
            book.close()
            goes_on = False

        async def read() -> None:
            async for piece in follow(path, LogQuery(), lambda: goes_on):
                observed.extend(piece)

        async with asyncio.timeout(60):
            await asyncio.gather(read(), write())
        return bytes(observed)

    assert asyncio.run(both()) == b"".join(b"line %d\n" % number for number in range(600))


def test_a_full_disk_costs_lines_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import headrace.local.jobs.instance_log as logbook

    book = InstanceLog(tmp_path / "a.log", 1 << 20)
    real = logbook.os.write

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(logbook.os, "write", full)
    book.write(b"one\ntwo\n")
    monkeypatch.setattr(logbook.os, "write", real)
    book.write(b"three\n")
    book.close()
    assert texts(tmp_path / "a.log") == [b"headrace: 2 lines were lost, since the disk was full", b"three"]

"""Reading the log of an instance: its last lines, those since a moment, and what comes; with times or without."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headrace.local.jobs.instance_log import PART, older_file

_POLL_S = 0.2
_PIECE_BYTES = 1 << 18
_MOST_AT_ONCE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A selection of lines, and the manner of reading."""

    tail: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    before: bytes = b""
    """Stands before each line."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line: when it began to be written, as text, and what it says."""

    stamp: bytes
    text: bytes

    def shown(self, query: LogQuery) -> bytes:
        """As it is printed, with its end."""
        stamp = self.stamp + b" " if query.timestamps else b""
        return b"%b%b%b\n" % (query.before, stamp, self.text)


class Parser:
    """Entries of a log become lines; what is not finished waits."""

    def __init__(self) -> None:
        self._rest = b""
        self._stamp = b""
        self._parts: list[bytes] = []

    def lines(self, data: bytes) -> Iterator[LogLine]:
        """The lines that end within the data."""
        *entries, self._rest = (self._rest + data).split(b"\n")
        for entry in entries:
            stamp, _, rest = entry.partition(b" ")
            kind, _, text = rest.partition(b" ")
            self._stamp = self._stamp or stamp
            self._parts.append(text)
            if kind != PART:
                yield self._whole()

    def end(self) -> Iterator[LogLine]:
        """The line that was begun and never finished."""
        if self._parts:
            yield self._whole()

    def _whole(self) -> LogLine:
        line = LogLine(self._stamp, b"".join(self._parts))
        self._stamp, self._parts = b"", []
        return line


def wanted(lines: Iterable[LogLine], query: LogQuery) -> Iterator[LogLine]:
    """The selected lines, of all lines that there are. Times are compared as text, which sorts as they do."""
    since = _stamp_of(query.since) if query.since else b""
    later = (line for line in lines if line.stamp >= since)
    return iter(later) if query.tail is None else iter(deque(later, maxlen=max(query.tail, 0)))


def lines_of(path: Path, query: LogQuery) -> Iterator[LogLine]:
    """The lines that are there, and asked for. Blocks."""
    with _Reader(path) as reader:
        yield from wanted([*reader.all(), *reader.rest()], query)


async def follow(path: Path, query: LogQuery, goes_on: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The lines that are there, and those that come while `goes_on` says so. A file that is not there yet is empty."""
    with _Reader(path) as reader:
        last_look = not goes_on()
        here = await asyncio.to_thread(lambda: list(wanted(reader.all(), query)))
        for piece in _joined(here, query):
            yield piece
        while True:
            for piece in _joined(await asyncio.to_thread(reader.more), query):
                yield piece
            if not reader.at_end:
                continue
            if last_look:
                for piece in _joined(reader.rest(), query):
                    yield piece
                return
            last_look = not goes_on()
            if not last_look:
                await asyncio.sleep(_POLL_S)


class _Reader:
    """Reads on through a change of files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parser = Parser()
        self._descriptor: int | None = None
        self.at_end = False
        """Nothing more was there when it was read last."""

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def all(self) -> Iterator[LogLine]:
        """All lines that there are."""
        self._descriptor = _opened(older_file(self._path)) or _opened(self._path)
        while not self.at_end:
            yield from self.more()

    def more(self) -> list[LogLine]:
        """What has come since the last time; a bounded part of it."""
        found: list[LogLine] = []
        left_bytes = _MOST_AT_ONCE_BYTES
        if self._descriptor is None:
            self._descriptor = _opened(self._path)
        self.at_end = self._descriptor is None
        while self._descriptor is not None and not self.at_end and left_bytes > 0:
            data = os.read(self._descriptor, _PIECE_BYTES)
            found += self._parser.lines(data)
            left_bytes -= len(data)
            self.at_end = not data and not self._turned()
        return found

    def rest(self) -> list[LogLine]:
        """What was never finished."""
        return list(self._parser.end())

    def _turned(self) -> bool:
        """Goes on to the next file when this one has ended; false when it is the last."""
        newest = _opened(self._path)
        if newest is None or self._descriptor is None:
            return False
        if os.path.sameopenfile(newest, self._descriptor):
            os.close(newest)
            return False
        # Whoever turned the page had written the last line of this one before.
        if data := os.read(self._descriptor, _PIECE_BYTES):
            os.close(newest)
            os.lseek(self._descriptor, -len(data), os.SEEK_CUR)
            return True
        self._close()
        self._descriptor = newest
        return True

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _opened(path: Path) -> int | None:
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return None


def _joined(lines: Iterable[LogLine], query: LogQuery) -> Iterator[bytes]:
    """Lines as they are sent: many in one piece."""
    data = b"".join(line.shown(query) for line in lines)
    for start in range(0, len(data), _PIECE_BYTES):
        yield data[start : start + _PIECE_BYTES]


def _stamp_of(moment: datetime) -> bytes:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()

"""The log of an instance: every line with the time at which it was written, in at most two files of a bounded size.

A line is `2026-01-31T09:30:00.123456Z F text`; with `P` in the place of `F` it goes on in the next one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

LONGEST_PART_BYTES = 16 << 10
WHOLE, PART = b"F", b"P"


def older_file(path: Path) -> Path:
    """The file with the lines before those of the file."""
    return path.with_name(f"{path.name}.1")


class InstanceLog:
    """Appends to a log. A full disk costs lines, never the program; how many is said when there is room again."""

    def __init__(self, path: Path, limit_bytes: int, clock: Callable[[], float] = time.time) -> None:
        """Both files together hold at most `limit_bytes`."""
        self._path = path
        self._half_bytes = max(limit_bytes // 2, 1)
        self._clock = clock
        self._rest = b""
        self._lost = 0
        self._descriptor = self._open()
        self._size_bytes = os.fstat(self._descriptor).st_size

    def write(self, output: bytes) -> None:
        """Takes what a program has written; an unfinished line waits for its end."""
        *lines, rest = (self._rest + output).split(b"\n")
        stamp = self._stamp()
        entries = [entry for line in lines for entry in _entries(stamp, line)]
        while len(rest) >= LONGEST_PART_BYTES:
            entries.append(_entry(stamp, PART, rest[:LONGEST_PART_BYTES]))
            rest = rest[LONGEST_PART_BYTES:]
        self._rest = rest
        if entries:
            self._append(entries)

    def say(self, text: str) -> None:
        """A line of our own."""
        self.finish()
        self._append([_entry(self._stamp(), WHOLE, f"headrace: {text}".encode(errors="replace"))])

    def finish(self) -> None:
        """The program writes no more: a line without an end is one."""
        if self._rest:
            rest, self._rest = self._rest, b""
            self._append(_entries(self._stamp(), rest))

    def close(self) -> None:
        """Writes what is left, and closes the file."""
        self.finish()
        os.close(self._descriptor)

    def _append(self, entries: list[bytes]) -> None:
        if self._lost:
            note = f"headrace: {self._lost} lines were lost, since the disk was full"
            entries = [_entry(self._stamp(), WHOLE, note.encode()), *entries]
        data = b"".join(entries)
        if self._size_bytes and self._size_bytes + len(data) > self._half_bytes:
            self._turn()
        try:
            _write_all(self._descriptor, data)
        except OSError:
            self._lost += len(entries) - (1 if self._lost else 0)
            return
        self._lost = 0
        self._size_bytes += len(data)

    def _turn(self) -> None:
        """Begins a new file; the one before takes the place of the older one."""
        os.close(self._descriptor)
        self._path.replace(older_file(self._path))
        self._descriptor = self._open()
        self._size_bytes = 0

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _stamp(self) -> bytes:
        now = datetime.fromtimestamp(self._clock(), UTC)
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()


def _entries(stamp: bytes, line: bytes) -> list[bytes]:
    """A whole line, in parts if it is long."""
    found = []
    while len(line) > LONGEST_PART_BYTES:
        found.append(_entry(stamp, PART, line[:LONGEST_PART_BYTES]))
        line = line[LONGEST_PART_BYTES:]
    return [*found, _entry(stamp, WHOLE, line)]


def _entry(stamp: bytes, kind: bytes, text: bytes) -> bytes:
    return b"%b %b %b\n" % (stamp, kind, text)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]

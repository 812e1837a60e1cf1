"""The memory of a process, searched for something that must not be there. Needs the right to trace it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

CHUNK_BYTES = 1 << 20
READABLE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r\S+ \S+ \S+ \S+ *(.*)$")


def places_that_hold(pid: int, wanted: bytes) -> list[str]:
    """The places in a process that hold the bytes: arguments, environment, and each readable part of its memory.

    One that has ended holds nothing any more.
    """
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return _found(pid, wanted)
    return []


def _found(pid: int, wanted: bytes) -> list[str]:
    found = [name for name in ("cmdline", "environ") if wanted in Path(f"/proc/{pid}/{name}").read_bytes()]
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for first, last, name in _regions(pid):
            memory_parts = _read(memory.fileno(), first, last, overlap=len(wanted) - 1)
            if any(wanted in part for part in memory_parts):
                found.append(name or f"{first:x}")
    return found


def _regions(pid: int) -> Iterator[tuple[int, int, str]]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        match = READABLE.match(line)
        # The kernel's own pages of a process cannot be read from outside.
        if match and not match[3].startswith(("[vvar", "[vsyscall")):
            yield int(match[1], 16), int(match[2], 16), match[3]


def _read(descriptor: int, first: int, last: int, *, overlap: int) -> Iterator[bytes]:
    """Parts that overlap, so that nothing is cut in two."""
    for start in range(first, last, CHUNK_BYTES):
        try:
            yield os.pread(descriptor, min(CHUNK_BYTES + overlap, last - start), start)
        except OSError:
            # Mapped beyond the end of its file, or gone meanwhile.
            continue

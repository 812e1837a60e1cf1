"""The end of a log, and what is written to it from then on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

_PIECE_BYTES = 1 << 16
_POLL_S = 0.3


async def tail(path: str, *, lines: int, goes_on: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The last lines of a file, and what comes while `goes_on` says so. A file that is not there yet is empty."""
    while not Path(path).exists():
        if not goes_on():
            return
        await asyncio.sleep(_POLL_S)
    with Path(path).open("rb") as file:
        file.seek(await asyncio.to_thread(_start_of, file, lines))
        while True:
            last_look = not goes_on()
            while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
                yield piece
            if last_look:
                return
            await asyncio.sleep(_POLL_S)


def _start_of(file: BinaryIO, lines: int) -> int:
    """Where the last lines begin."""
    end = place = file.seek(0, 2)
    # The line feed at the end of the file ends a line, and begins none.
    wanted = lines + 1
    while place > 0:
        size = min(_PIECE_BYTES, place)
        place -= size
        file.seek(place)
        piece = file.read(size)
        if place + size == end and not piece.endswith(b"\n"):
            wanted -= 1
        found = piece.count(b"\n")
        if found >= wanted:
            at = len(piece)
            for _ in range(wanted):
                at = piece.rindex(b"\n", 0, at)
            return place + at + 1
        wanted -= found
    return 0

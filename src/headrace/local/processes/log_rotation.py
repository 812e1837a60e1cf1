"""Logs of roles, kept from growing for ever: what is over the limit moves to a file beside it.

The roles append to the file that they were given, so it is emptied in place; lines that are written during the copy
may be lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

_log = logging.getLogger("headrace.local")

LARGEST_BYTES = 16 << 20
_POLL_S = 30.0


def trim(path: Path, *, largest_bytes: int = LARGEST_BYTES) -> bool:
    """Moves the content of a log that has grown large to `NAME.1`; true when it did."""
    try:
        if path.stat().st_size <= largest_bytes:
            return False
        older = path.with_name(f"{path.name}.1")
        shutil.copyfile(path, older)
        older.chmod(0o600)
        os.truncate(path, 0)
    except FileNotFoundError:
        return False
    return True


async def keep_trimmed(paths: Callable[[], Iterable[Path]]) -> None:
    """Looks after the logs until it is cancelled."""
    while True:
        for path in list(paths()):
            try:
                await asyncio.to_thread(trim, path)
            except OSError as error:
                _log.warning("log: %s cannot be trimmed: %s", path, error.strerror)
        await asyncio.sleep(_POLL_S)

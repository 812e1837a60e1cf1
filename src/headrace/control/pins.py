"""The files that workers keep whatever else is read: paths, as people order it, and the ids of their files, as workers
know them.

The ids follow from the snapshot, so they are worked out again with each new one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence

from headrace.control.messages import Pins, decode_paths, shown_path
from headrace.errors import HeadraceError

_log = logging.getLogger("headrace.master")

FileIds = Callable[[Sequence[bytes]], bytes]
"""The ids of all files at or below paths of the newest snapshot, as in `Pins`; blocks, and is called in a thread."""


class PinBoard:
    """The pinned paths (percent-encoded), and the ids that follow from them."""

    def __init__(self, file_ids: FileIds) -> None:
        self._file_ids = file_ids
        self._lock = asyncio.Lock()
        self.paths: tuple[str, ...] = ()
        self.pins = Pins(version=0)

    def restore(self, paths: Iterable[str]) -> None:
        """Takes back what was saved."""
        self.paths = tuple(paths)

    def pin(self, paths: Iterable[str]) -> None:
        """Adds paths; `resolve` makes it count."""
        self.paths = tuple(sorted({*self.paths, *paths}))

    def unpin(self, paths: Iterable[bytes]) -> None:
        """Removes these paths and all below them."""
        gone = [*paths]
        self.paths = tuple(path for path in self.paths if not _is_below(path, gone))

    async def resolve(self) -> None:
        """Works the ids out by the newest snapshot; a path that is not in it pins nothing."""
        async with self._lock:
            ids = b"".join([await self._ids_below(path) for path in self.paths])
            if ids != self.pins.ids or not self.pins.version:
                # Never a number of an earlier master: what a worker knows under it may be other ids.
                version = max(self.pins.version + 1, int(time.time() * 1000))
                self.pins = Pins(version=version, ids=ids)

    async def _ids_below(self, path: str) -> bytes:
        try:
            return await asyncio.to_thread(self._file_ids, decode_paths([path]))
        except HeadraceError as error:
            _log.warning("master: nothing is pinned at %s: %s", shown_path(path), error)
            return b""


def _is_below(path: str, folders: list[bytes]) -> bool:
    (raw,) = decode_paths([path])
    return any(not folder or raw == folder or raw.startswith(folder + b"/") for folder in folders)

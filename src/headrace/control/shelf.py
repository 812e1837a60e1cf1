"""The snapshots that the master hands out: the newest, and those before it that are still there.

Which files are kept is the lister's; a member that has downloaded one needs it here no more.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.control.messages import Refreshed, SnapshotNote
from headrace.errors import HeadraceError, MissingFileError, NoSpaceError

_log = logging.getLogger("headrace.master")

KEPT = 3
_PIECE_BYTES = 1 << 20


class Lister(Protocol):
    """The maker of snapshots. Its methods block, and are called in threads."""

    def take(self) -> tuple[Path, Refreshed]:
        """A new snapshot of all origins, and what it changed."""
        ...

    def describe(self, path: Path) -> SnapshotNote:
        """The note in a snapshot's header; raises `HeadraceError` for a file that is no snapshot."""
        ...


@dataclass(frozen=True)
class Held:
    """One snapshot of the shelf."""

    path: Path
    note: SnapshotNote

    @property
    def tag(self) -> str:
        """Names these bytes: a master that lost its folder may give a version a second time."""
        return self.note.tag


class Shelf:
    """The folder of snapshots."""

    def __init__(self, directory: Path, lister: Lister) -> None:
        self._directory = directory
        self._lister = lister
        self._held: dict[int, Held] = {}
        self._lock = asyncio.Lock()
        self.refresh_error: str | None = None
        self.refresh_error_kind: str | None = None
        self.notices: tuple[str, ...] = ()
        """What makes origins slow to list, as the last list showed it."""
        self.has_tried = False
        """True once a first attempt at a list has ended, well or not."""

    @property
    def newest(self) -> Held | None:
        """The one in use."""
        return self._held[max(self._held)] if self._held else None

    def get(self, version: int) -> Held:
        """That version, or the newest for 0. Raises `MissingFileError`."""
        held = self._held.get(version) if version else self.newest
        if held is None or not held.path.exists():
            raise MissingFileError.of(
                f"snapshot {version} is not here any more" if version else "there is no snapshot yet",
                hint="ask for the newest" if version else "the master's log says why",
            )
        return held

    async def open(self) -> None:
        """Finds what earlier masters have taken: the newest that is whole."""
        for path in snapshot_files(self._directory):
            try:
                held = await asyncio.to_thread(self._hold, path)
            except (HeadraceError, OSError) as error:
                _log.warning("master: passing over the snapshot %s: %s", path.name, error)
                continue
            self._held[held.note.version] = held
            return

    async def refresh(self) -> Refreshed:
        """Takes a new snapshot; callers meanwhile wait for their turn."""
        async with self._lock:
            try:
                path, refreshed = await asyncio.to_thread(self._lister.take)
                held = await asyncio.to_thread(self._hold, path)
            except OSError as error:
                said = self._told(error)
                self.refresh_error, self.refresh_error_kind = said.message, said.kind
                raise said from error
            finally:
                self.has_tried = True
            self.refresh_error = self.refresh_error_kind = None
            self.notices = refreshed.notices
            self._held[held.note.version] = held
            for version in sorted(self._held)[:-KEPT]:
                del self._held[version]
            return refreshed

    def _told(self, error: OSError) -> HeadraceError:
        """A fault of the disk of snapshots in the words of ours, so that it is told and tried again like any other."""
        if isinstance(error, HeadraceError):
            return error
        message = f"cannot keep a list of files in {self._directory}: {error.strerror or error}"
        return NoSpaceError.of(message, hint="see that the master can write there; it is tried again")

    def _hold(self, path: Path) -> Held:
        note = self._lister.describe(path)
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
            size = file.tell()
        return Held(path, note.model_copy(update={"sha256": digest.hexdigest(), "file_bytes": size}))


def snapshot_files(directory: Path) -> Iterator[Path]:
    """The snapshots of a folder, newest first."""
    named = [path for path in directory.glob("snapshot-*.hrs") if _version(path) > 0]
    yield from sorted(named, key=_version, reverse=True)


def _version(path: Path) -> int:
    text = path.stem.removeprefix("snapshot-")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0

"""Brings the master's snapshot to this machine, and goes on where a broken download stopped.

The files stay for a start while the master is away. A file is used only when its bytes have the digest that the master
signed.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

from headrace.control.client import ControlClient
from headrace.control.durable import sync_folder
from headrace.control.messages import SnapshotNote
from headrace.errors import CorruptDataError

_PIECE_BYTES = 1 << 20


def snapshot_path(folder: Path, version: int) -> Path:
    """Where the engine looks for that snapshot."""
    return folder / f"snapshot-{version}.hrs"


def has_snapshot(folder: Path, note: SnapshotNote) -> bool:
    """True when the file of that snapshot was downloaded whole."""
    path = snapshot_path(folder, note.version)
    return path.exists() and path.stat().st_size == note.file_bytes and _tag_of(path) == note.tag


async def fetch_snapshot(client: ControlClient, note: SnapshotNote, folder: Path) -> Path:
    """The snapshot's file, downloaded if it is not there. Raises what `ControlClient` raises, or `CorruptDataError`.

    Later versions that lie there are of a master that lost its state: they go, or the engine would take them for newer.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = snapshot_path(folder, note.version)
    if has_snapshot(folder, note):
        return target
    # The digest is in the name: what is left of another download is never gone on with.
    part = folder / f".snapshot-{note.tag}.part"
    await _complete(client, note, part)
    if await asyncio.to_thread(_digest, part) != note.sha256:
        part.unlink(missing_ok=True)
        raise CorruptDataError.of(
            f"snapshot {note.version} of {client.master} did not come whole",
            hint="it is fetched anew next time",
        )
    part.replace(target)
    _tag_path(target).write_text(note.tag, encoding="ascii")
    _drop_later(folder, note.version)
    sync_folder(folder)
    return target


def _drop_later(folder: Path, current: int) -> None:
    """Those before are the engine's to drop: it knows which of them programs have open."""
    for path in folder.glob("snapshot-*.hrs"):
        text = path.stem.removeprefix("snapshot-")
        if text.isdigit() and int(text) > current:
            path.unlink(missing_ok=True)
    for path in folder.glob("snapshot-*.tag"):
        if not path.with_suffix(".hrs").exists():
            path.unlink(missing_ok=True)
    for part in folder.glob(".snapshot-*.part"):
        part.unlink(missing_ok=True)


def _tag_path(snapshot: Path) -> Path:
    return snapshot.with_suffix(".tag")


def _tag_of(snapshot: Path) -> str | None:
    try:
        return _tag_path(snapshot).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None


async def _complete(client: ControlClient, note: SnapshotNote, part: Path) -> None:
    with part.open("ab") as file:
        if file.tell() > note.file_bytes:
            file.truncate(0)
        if file.tell() < note.file_bytes:
            await client.copy_snapshot(note.version, file.tell(), note.file_bytes, file.write)
        file.flush()
        os.fsync(file.fileno())


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()

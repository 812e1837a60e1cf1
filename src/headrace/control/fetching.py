"""Brings the master's snapshot to this machine, goes on where a broken download stopped, and keeps the last outlook.

The files stay for a start while the master is away. A file is used only when its bytes have the digest that the master
signed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from pathlib import Path

from pydantic import ValidationError

from headrace.control.client import ControlClient
from headrace.control.durable import sync_folder
from headrace.control.messages import Outlook, SnapshotNote
from headrace.errors import CorruptDataError

_PIECE_BYTES = 1 << 20
_KEPT = 2
_OUTLOOK = "outlook.json"


def snapshot_path(folder: Path, note: SnapshotNote) -> Path:
    """Where that snapshot lies, or will lie. Its digest is in the name: a version alone may be given twice."""
    return folder / f"snapshot-{note.version}-{note.sha256[:16]}.hrs"


async def fetch_snapshot(client: ControlClient, note: SnapshotNote, folder: Path) -> Path:
    """The snapshot's file, downloaded if it is not there. Raises what `ControlClient` raises, or `CorruptDataError`."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = snapshot_path(folder, note)
    if target.exists() and target.stat().st_size == note.file_bytes:
        return target
    part = target.with_name(f".{target.name}.part")
    await _complete(client, note, part)
    if await asyncio.to_thread(_digest, part) != note.sha256:
        part.unlink(missing_ok=True)
        raise CorruptDataError.of(
            f"snapshot {note.version} of {client.master} did not come whole",
            hint="it is fetched anew next time",
        )
    part.replace(target)
    sync_folder(folder)
    return target


def drop_old_snapshots(folder: Path, current: Path) -> None:
    """Removes all but the newest few; what is mapped stays readable for those who have it."""
    found = sorted(folder.glob("*snapshot-*.hrs*"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in [path for path in found if path != current][_KEPT - 1 :]:
        path.unlink(missing_ok=True)


def save_outlook(folder: Path, outlook: Outlook) -> None:
    """Keeps an outlook with its view for a start without the master."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f".{_OUTLOOK}.draft"
    with draft.open("w", encoding="utf-8") as file:
        file.write(outlook.model_dump_json())
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / _OUTLOOK)


def last_outlook(folder: Path) -> Outlook | None:
    """The outlook that was kept; `None` when there is none that is whole."""
    with contextlib.suppress(OSError, ValidationError):
        outlook = Outlook.model_validate_json((folder / _OUTLOOK).read_bytes())
        return outlook if outlook.view is not None else None
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

"""Brings the master's snapshot to this machine, and goes on where a broken download stopped.

The files stay for a start while the master is away. A file is used only when its bytes have the digest that the master
signed. A client of an earlier snapshot, such as a kernel, is to know the files of the next by the same numbers, also of
a master that numbers anew because it lost its earlier snapshots: so each is made the successor of the one before it
here.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from headrace.control.client import ControlClient
from headrace.control.messages import SnapshotNote
from headrace.control.state_file import sync_folder
from headrace.errors import CorruptDataError

_log = logging.getLogger("headrace.snapshots")

_PIECE_BYTES = 1 << 20

Succeed = Callable[[Path, Path], None]
"""Takes the snapshot that was seen last, and the file of the next one, which it writes anew."""


def snapshot_path(folder: Path, version: int) -> Path:
    """The path at which the engine looks for that snapshot."""
    return folder / f"snapshot-{version}.hrs"


def has_snapshot(folder: Path, note: SnapshotNote) -> bool:
    """True when the file of that snapshot was downloaded whole."""
    path = snapshot_path(folder, note.version)
    tag, size_bytes = _tag_of(path)
    return path.exists() and path.stat().st_size == (size_bytes or note.file_bytes) and tag == note.tag


async def fetch_snapshot(
    client: ControlClient, note: SnapshotNote, folder: Path, succeed: Succeed | None = None
) -> Path:
    """The snapshot's file, downloaded if it is not there. Raises what `ControlClient` raises, or `CorruptDataError`.

    `succeed` makes it the successor of the one that is in the folder; without it the file is as the master has it.
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
    if succeed is not None:
        await asyncio.to_thread(_continue, folder, part, succeed)
    # First that nothing is known of it: cut off here, it is fetched anew.
    _tag_path(target).unlink(missing_ok=True)
    size_bytes = part.stat().st_size
    part.replace(target)
    _tag_path(target).write_text(f"{note.tag} {size_bytes}", encoding="ascii")
    _drop_later(folder, note.version)
    sync_folder(folder)
    return target


def _continue(folder: Path, part: Path, succeed: Succeed) -> None:
    """After the newest that is there: what was seen last, since later ones of another master went."""
    for before in sorted(folder.glob("snapshot-*.hrs"), key=_version_of, reverse=True):
        try:
            succeed(before, part)
        except CorruptDataError as error:
            # Nobody can have gone on with that one, either.
            _log.warning("the snapshot before this one is damaged: %s", error)
            continue
        return


def _drop_later(folder: Path, current: int) -> None:
    """Those before are the engine's to drop: it knows which of them programs have open."""
    for path in folder.glob("snapshot-*.hrs"):
        if _version_of(path) > current:
            path.unlink(missing_ok=True)
    for path in folder.glob("snapshot-*.tag"):
        if not path.with_suffix(".hrs").exists():
            path.unlink(missing_ok=True)
    for part in folder.glob(".snapshot-*.part"):
        part.unlink(missing_ok=True)


def _version_of(path: Path) -> int:
    text = path.stem.removeprefix("snapshot-")
    return int(text) if text.isdecimal() else -1


def _tag_path(snapshot: Path) -> Path:
    return snapshot.with_suffix(".tag")


def _tag_of(snapshot: Path) -> tuple[str, int | None]:
    """Its tag at the master, and the length of the file here."""
    try:
        tag, _, size = _tag_path(snapshot).read_text(encoding="ascii").partition(" ")
    except (OSError, UnicodeDecodeError):
        return "", None
    return tag, int(size) if size.isdecimal() else None


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

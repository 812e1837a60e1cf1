"""Backups of the list of a dataset's files, kept in a folder and started from later. docs/format/backup.md describes
it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, ValidationError

from headrace.api.identities import User
from headrace.control.client import ControlClient
from headrace.control.fetching import fetch_snapshot, snapshot_path
from headrace.control.messages import SnapshotNote
from headrace.control.state_file import sync_folder
from headrace.errors import (
    BusyError,
    ConfigError,
    CorruptDataError,
    MissingFileError,
    RefusedError,
    UnsupportedError,
)
from headrace.process.deferred_model import DeferredModel
from headrace.trusted_folders import make_folder

_LOCAL = "local:///"
_LARGEST_NOTE_BYTES = 64 << 10
_PIECE_BYTES = 1 << 20


class BackupNote(DeferredModel):
    """The note beside the snapshot of a backup. Written last: without it there is no backup."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal["headrace-backup"] = "headrace-backup"
    version: Literal[1] = 1
    dataset: str
    snapshot: SnapshotNote


async def back_up(client: ControlClient, title: str, address: str, owner: User | None) -> SnapshotNote:
    """Keeps the newest snapshot of the dataset `namespace/name` in the folder. An earlier backup is replaced."""
    folder = folder_of(address)
    snapshot = (await client.outlook()).snapshot
    if snapshot is None:
        raise BusyError.of(f"dataset {title} has no list of its files yet")
    draft = folder / f".{_stem(title)}.draft"
    try:
        path = await fetch_snapshot(client, snapshot, draft)
        _keep(path, folder, BackupNote(dataset=title, snapshot=snapshot), owner)
    except OSError as error:
        if isinstance(error, (CorruptDataError, BusyError)):
            raise
        raise ConfigError.of(f"the backup cannot be written to {folder}: {error.strerror}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return snapshot


def restore(title: str, address: str, snapshots: Path) -> None:
    """Puts the snapshot of a backup where a master looks for its own, unless there are some already. Blocks.

    Raises `MissingFileError` when there is no backup, `RefusedError` for one of another user, and `CorruptDataError`
    for one that is damaged.
    """
    if any(snapshots.glob("snapshot-*.hrs")):
        return
    note = read_note(title, folder_of(address))
    source = folder_of(address) / f"{_stem(title)}.hrs"
    draft = snapshots / ".restored.part"
    make_folder(snapshots)
    try:
        with _reading(source, title):
            digest = _copy(source, draft)
        if digest != note.snapshot.sha256:
            raise CorruptDataError.of(f"{source} is not the file that was kept", hint="take another backup")
        draft.replace(snapshot_path(snapshots, note.snapshot.version))
    finally:
        draft.unlink(missing_ok=True)


def read_note(title: str, folder: Path) -> BackupNote:
    """The note of a backup. Raises `MissingFileError`, `RefusedError` or `CorruptDataError`."""
    path = folder / f"{_stem(title)}.json"
    try:
        with _reading(path, title), path.open("rb") as file:
            return BackupNote.model_validate_json(file.read(_LARGEST_NOTE_BYTES))
    except ValidationError:
        raise CorruptDataError.of(f"{path} is not the note of a backup", hint="take another backup") from None


def folder_of(address: str) -> Path:
    """The folder of `local:///folder`. Raises `UnsupportedError`."""
    if not address.startswith(_LOCAL):
        raise UnsupportedError.of(
            f"no backups are kept at {address}", hint="give local:///FOLDER, or a claim of one"
        )
    return Path(address.removeprefix(_LOCAL.rstrip("/")))


def _keep(path: Path, folder: Path, note: BackupNote, owner: User | None) -> None:
    """The old note goes first, the new one comes last: in between there is no backup, never a wrong one."""
    kept, told = folder / f"{_stem(note.dataset)}.hrs", folder / f"{_stem(note.dataset)}.json"
    draft = path.with_name("note.json")
    draft.write_text(json.dumps(note.model_dump(), indent=1))
    for each in (draft, path):
        each.chmod(0o600)
    told.unlink(missing_ok=True)
    path.replace(kept)
    draft.replace(told)
    sync_folder(folder)
    if owner is not None and os.geteuid() == 0:
        for each in (kept, told):
            os.chown(each, owner.uid, owner.gid)


def _copy(source: Path, target: Path) -> str:
    """Copies, and returns the digest of what was copied."""
    digest = hashlib.sha256()
    with source.open("rb") as file, target.open("wb") as copy:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            copy.write(piece)
        copy.flush()
        os.fsync(copy.fileno())
    return digest.hexdigest()


def _stem(title: str) -> str:
    namespace, _, name = title.partition("/")
    return f"metadata-backup-{name}-{namespace}"


@contextmanager
def _reading(path: Path, title: str) -> Iterator[None]:
    """Says why a file of a backup cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise MissingFileError.of(
            f"there is no backup of dataset {title} in {path.parent}",
            hint="make one with a DataBackup, or leave dataRestoreLocation out",
        ) from None
    except PermissionError:
        raise RefusedError.of(
            f"the backup {path} may not be read by user {os.geteuid()}",
            hint="give the DataBackup the runAs of the runtime, and make the backup anew",
        ) from None

"""Backups of file lists: found again whole, refused when damaged, and never over a master's own list."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from headrace.control.messages import SnapshotNote
from headrace.errors import CorruptDataError, HeadraceError, MissingFileError, RefusedError, UnsupportedError
from headrace.operations.backups import BackupNote, folder_of, read_note, restore

TITLE = "default/shop"
CONTENT = b"a snapshot"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One that holds a backup."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    note = BackupNote(dataset=TITLE, snapshot=SnapshotNote(version=7, sha256=digest))
    (tmp_path / "metadata-backup-shop-default.hrs").write_bytes(CONTENT)
    (tmp_path / "metadata-backup-shop-default.json").write_text(note.model_dump_json())
    return tmp_path


def test_the_kept_snapshot_comes_to_the_master_under_its_version(folder: Path) -> None:
    restore(TITLE, f"local://{folder}", folder / "engine")
    assert [path.name for path in (folder / "engine").iterdir()] == ["snapshot-7.hrs"]
    assert (folder / "engine" / "snapshot-7.hrs").read_bytes() == CONTENT


def test_a_masters_own_list_stays(folder: Path) -> None:
    own = folder / "engine" / "snapshot-9.hrs"
    own.parent.mkdir()
    own.write_bytes(b"newer")
    restore(TITLE, f"local://{folder}", own.parent)
    assert [path.name for path in own.parent.iterdir()] == ["snapshot-9.hrs"]


def damage_content(folder: Path) -> None:
    (folder / "metadata-backup-shop-default.hrs").write_bytes(b"another file")


def damage_note(folder: Path) -> None:
    (folder / "metadata-backup-shop-default.json").write_text("{")


def newer_note(folder: Path) -> None:
    path = folder / "metadata-backup-shop-default.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))


def no_note(folder: Path) -> None:
    (folder / "metadata-backup-shop-default.json").unlink()


def no_content(folder: Path) -> None:
    (folder / "metadata-backup-shop-default.hrs").unlink()


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        (damage_content, CorruptDataError),
        (damage_note, CorruptDataError),
        (newer_note, CorruptDataError),
        (no_note, MissingFileError),
        (no_content, MissingFileError),
    ],
)
def test_a_damaged_backup_is_refused_and_leaves_nothing(
    folder: Path, harm: object, error: type[HeadraceError]
) -> None:
    assert callable(harm)
    harm(folder)
    with pytest.raises(error, match=r"backup|kept"):
        restore(TITLE, f"local://{folder}", folder / "engine")
    assert not (folder / "engine").exists() or list((folder / "engine").iterdir()) == []


def test_a_backup_of_another_user_says_so_and_what_to_do(folder: Path) -> None:
    note = folder / "metadata-backup-shop-default.json"
    note.chmod(0)
    user = os.geteuid()
    # Root may read everything.
    os.seteuid(user or 65534)
    try:
        with pytest.raises(RefusedError, match=f"{note} may not be read by user") as refused:
            read_note(TITLE, folder)
    finally:
        os.seteuid(user)
    assert "runAs" in (refused.value.hint or "")


def test_only_folders_are_taken() -> None:
    with pytest.raises(UnsupportedError, match="nfs://server/backup"):
        folder_of("nfs://server/backup")

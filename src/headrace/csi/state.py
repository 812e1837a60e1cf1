"""The driver's publications, in a file that survives it (docs/format/csi-state.md)."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headrace.control.state_file import set_aside, sync_folder
from headrace.csi.volume_requests import Publication
from headrace.errors import CorruptDataError, UnsupportedError
from headrace.settings.model import Model
from headrace.trusted_folders import open_file

MAGIC = "headrace-csi"
VERSION = 1
LARGEST_BYTES = 16 << 20


class _Body(Model):
    publications: tuple[Publication, ...]


def dump(publications: tuple[Publication, ...]) -> bytes:
    """The content of the file."""
    body = _Body(publications=publications).model_dump(mode="json")
    document = {"magic": MAGIC, "version": VERSION, "checksum": _checksum(body), "body": body}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def restore(raw: bytes) -> tuple[Publication, ...]:
    """The publications that `dump` was given. Raises `CorruptDataError`, or `UnsupportedError` for a later version."""
    document = _document(raw)
    version = document.get("version")
    if isinstance(version, int) and version > VERSION:
        raise UnsupportedError.of(
            f"the driver's state is of version {version}, and this driver knows {VERSION}"
        )
    if version != VERSION or document.get("checksum") != _checksum(document.get("body")):
        raise CorruptDataError.of("the driver's state does not match its checksum")
    try:
        return _Body.model_validate_json(json.dumps(document["body"])).publications
    except ValidationError:
        raise CorruptDataError.of("the driver's state holds wrong values") from None


class State:
    """The publications of this node by target path; every change is in the file before it counts.

    Any thread may call it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._publications: dict[str, Publication] = {}
        self._saving = threading.Lock()

    def load(self) -> str | None:
        """Reads the file. One that is damaged is set aside: what it is called then, for the log.

        Raises `UnsupportedError` for the file of a later version.
        """
        try:
            with self._file.open("rb") as file:
                raw = file.read(LARGEST_BYTES + 1)
        except FileNotFoundError:
            return None
        try:
            self._publications = {each.target: each for each in restore(raw)}
        except CorruptDataError as error:
            return f"{error}; it is {set_aside(self._file, time.time())} now"
        return None

    def __iter__(self) -> Iterator[Publication]:
        return iter(tuple(self._publications.values()))

    def __len__(self) -> int:
        return len(self._publications)

    def get(self, target: str) -> Publication | None:
        """The publication at a target path."""
        return self._publications.get(target)

    def put(self, publication: Publication) -> None:
        """Notes a publication, for good."""
        with self._saving:
            self._save({**self._publications, publication.target: publication})

    def remove(self, target: str) -> None:
        """Forgets what was published at a target path."""
        with self._saving:
            if target in self._publications:
                self._save({key: each for key, each in self._publications.items() if key != target})

    def _save(self, publications: dict[str, Publication]) -> None:
        draft = self._file.with_name(f".{self._file.name}.draft")
        descriptor = open_file(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(dump(tuple(publications.values())))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._file)
        sync_folder(self._file.parent)
        self._publications = publications


def _document(raw: bytes) -> dict[str, Any]:
    try:
        document = json.loads(raw) if len(raw) <= LARGEST_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("magic") != MAGIC:
        raise CorruptDataError.of("the driver's state is cut off, or none of ours")
    return document


def _checksum(body: object) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()

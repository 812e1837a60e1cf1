"""A small state that survives: one file, written whole or not at all, and never believed when it is damaged.

Format: docs/format/master-state.md. Knows nothing of what the state means.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from pathlib import Path
from typing import Any, Self

from headrace.errors import BusyError, ConfigError, CorruptDataError, RefusedError, UnsupportedError
from headrace.trusted_folders import make_folder, open_file

MAGIC = "headrace-master-state"
VERSION = 1
LARGEST_BYTES = 256 << 20


def encode(state: dict[str, Any]) -> bytes:
    """The bytes of the file: a line that says what it is, and the state as one line of JSON."""
    body = json.dumps(state, sort_keys=True, separators=(",", ":")).encode()
    head = {
        "magic": MAGIC,
        "version": VERSION,
        "bytes": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    return json.dumps(head).encode() + b"\n" + body + b"\n"


def decode(raw: bytes) -> dict[str, Any]:
    """The state. Raises `CorruptDataError`, or `UnsupportedError` for a version of the future."""
    first, _, rest = raw.partition(b"\n")
    head = _object(first)
    if head is None or head.get("magic") != MAGIC:
        raise CorruptDataError.of("it is no state of a master")
    if head.get("version") != VERSION:
        hint = "start the newer version that wrote it"
        raise UnsupportedError.of(f"its format {head.get('version')} is not known here", hint=hint)
    body = rest.removesuffix(b"\n")
    if len(rest) != len(body) + 1 or head.get("bytes") != len(body):
        raise CorruptDataError.of("it is cut off")
    if head.get("sha256") != hashlib.sha256(body).hexdigest():
        raise CorruptDataError.of("its checksum does not match")
    state = _object(body)
    if state is None:
        raise CorruptDataError.of("it holds no object")
    return state


def write(path: Path, state: dict[str, Any]) -> None:
    """Replaces the file; after a crash at any moment the old one or the new one is there."""
    draft = path.with_name(f".{path.name}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(encode(state))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def read(path: Path) -> dict[str, Any] | None:
    """The state; `None` when there is none. Raises `CorruptDataError` and `UnsupportedError`, saying what is wrong."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(raw) > LARGEST_BYTES:
        raise CorruptDataError.of("it is far too large")
    return decode(raw)


def set_aside(path: Path, now_s: float) -> Path:
    """Gives a damaged file another name, for a person to look at."""
    aside = path.with_name(f"{path.name}.damaged-{int(now_s)}")
    path.replace(aside)
    return aside


def sync_folder(folder: Path) -> None:
    """Makes names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Lock:
    """A folder that one process works in; ends with the process, however that ends."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder, self._owner = folder, owner
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            make_folder(self._folder)
            self._descriptor = open_file(self._folder / "lock", os.O_RDWR | os.O_CREAT)
        except RefusedError:
            raise
        except OSError as error:
            raise ConfigError.of(f"cannot use the state folder {self._folder}: {error.strerror}") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise BusyError.of(
                f"another {self._owner} works in {self._folder}",
                hint="end that one, or give this one a state_directory of its own",
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None

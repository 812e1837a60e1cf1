"""Messages between a supervisor and the keeper of its node: one packet a message, some with descriptors.

Format: docs/format/keeper-protocol.md. Received messages are judged here and nowhere else. Knows no engine and no model
library, so that the supervisor stays small.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from typing import Any, Self

MAGIC = b"HRKP"
VERSION = 1
LARGEST_BYTES = 128 << 10
MOST_DESCRIPTORS = 2
# Magic, version, kind, length of the body, checksum over all of it with zeros in this place.
_HEADER = struct.Struct("<4sHHII")
_LONGEST_PATH = 4096


class Kind(IntEnum):
    """The first four come from a supervisor, the others are the keeper's answers, one to each."""

    CLAIM = 1
    DEPOSIT = 2
    WITHDRAW = 3
    LEAVE = 4
    HELD = 16
    FREE = 17
    DONE = 18
    REFUSED = 19


class GarbledError(ValueError):
    """A packet is no message of this protocol, or of another version."""


@dataclass(frozen=True)
class Packet:
    """One message."""

    kind: Kind
    body: dict[str, Any]


@dataclass(frozen=True)
class Deposit:
    """The kept facts of a mount, beside the two descriptors. Holds no credentials."""

    mountpoint: str
    lineage: str
    """The state folder. A mount with another one has other inodes, and cannot go on with this connection."""
    words: str
    name: str
    device: str
    log_file: str | None
    restarts: int

    @classmethod
    def of(cls, body: dict[str, Any]) -> Self:
        """The deposit in a message. Raises `GarbledError`."""
        if set(body) != {field.name for field in fields(cls)}:
            raise GarbledError("a deposit lacks a field, or has one too many")
        texts = [body[name] for name in ("mountpoint", "lineage", "words", "name", "device")]
        if not all(isinstance(text, str) for text in texts):
            raise GarbledError("a deposit has a wrong value")
        if not isinstance(body["restarts"], int) or not isinstance(body["log_file"], str | None):
            raise GarbledError("a deposit has a wrong value")
        check_mountpoint(body["mountpoint"])
        return cls(**body)

    def packet(self, kind: Kind = Kind.DEPOSIT) -> bytes:
        """For sending."""
        return encode(kind, asdict(self))


def encode(kind: Kind, body: dict[str, Any] | None = None) -> bytes:
    """The packet of a message."""
    text = json.dumps(body or {}).encode()
    if len(text) > LARGEST_BYTES - _HEADER.size:
        raise ValueError(f"a message of {len(text)} bytes")
    bare = _HEADER.pack(MAGIC, VERSION, kind, len(text), 0) + text
    return _HEADER.pack(MAGIC, VERSION, kind, len(text), zlib.crc32(bare)) + text


def decode(packet: bytes) -> Packet:
    """The message in a packet. Raises `GarbledError`."""
    if len(packet) < _HEADER.size or packet[:4] != MAGIC:
        raise GarbledError("this is no message to or from a keeper")
    _, version, kind, length, checksum = _HEADER.unpack_from(packet)
    if version != VERSION:
        raise GarbledError(f"the message is of version {version}; this side knows {VERSION}")
    text = packet[_HEADER.size :]
    bare = _HEADER.pack(MAGIC, VERSION, kind, length, 0) + text
    if length != len(text) or zlib.crc32(bare) != checksum:
        raise GarbledError("the message is damaged")
    return Packet(_kind(kind), _object(text))


def check_mountpoint(path: object) -> str:
    """An absolute path without detours. Raises `GarbledError`."""
    if not isinstance(path, str) or not path.startswith("/") or len(path) > _LONGEST_PATH or "\0" in path:
        raise GarbledError("a mountpoint is an absolute path")
    if any(part in ("", ".", "..") for part in path.split("/")[1:]):
        raise GarbledError("a mountpoint has no detours in its path")
    return path


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise GarbledError(f"messages of the kind {number} are not known") from None


def _object(text: bytes) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise GarbledError("the message is damaged") from None
    if not isinstance(body, dict):
        raise GarbledError("the message is damaged")
    return body

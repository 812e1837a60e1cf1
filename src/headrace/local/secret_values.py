"""Values of Secrets, for who writes them into the file of a role: the one place that takes them out of the store."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

from headrace.local.database import Database
from headrace.local.records import Record


def keys_of(secret: Record) -> frozenset[str]:
    """The keys that a Secret has."""
    return frozenset(secret.content.get("data") or ())


def values_of(secret: Record) -> Mapping[str, bytes]:
    """Its values, decoded. They go into files of mode 0600, and nowhere else."""
    coded: Mapping[str, str] = secret.content.get("data") or {}
    return {key: base64.b64decode(value) for key, value in coded.items()}


def digest_key(database: Database) -> bytes:
    """The key of this backend's digests: without it they tell nothing of the values."""
    return bytes.fromhex(database.fact("digest_key"))


def digest_of(secret: Record, key: bytes) -> str:
    """Sixteen hexadecimal digits that change with any value."""
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for name, value in sorted(values_of(secret).items()):
        for part in (name.encode(), value):
            digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()[:16]

"""Values of Secrets, for who writes them into the file of a role: the one place that takes them out of the store."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

from headrace.local.store.database import Database
from headrace.local.store.records import Record


def values_of(secret: Record) -> Mapping[str, bytes]:
    """Its values, decoded. They go into files of mode 0600, and nowhere else."""
    coded: Mapping[str, str] = secret.content.get("data") or {}
    return {key: base64.b64decode(value) for key, value in coded.items()}


def digest_key(database: Database) -> bytes:
    """The key of this backend's digests: without it they tell nothing of the values."""
    return bytes.fromhex(database.fact("digest_key"))


def digests_of(secret: Record, key: bytes) -> Mapping[str, str]:
    """For each of its keys sixteen hexadecimal digits that change with the value.

    Two Secrets, or two keys, with the same value have other digits each.
    """
    return {
        name: _digest(key, secret.reference.namespace, secret.reference.name, name, value=value)
        for name, value in sorted(values_of(secret).items())
    }


def _digest(digest_key: bytes, *place: str, value: bytes) -> str:
    digest = hmac.new(digest_key, digestmod=hashlib.sha256)
    for part in (*(word.encode() for word in place), value):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()[:16]

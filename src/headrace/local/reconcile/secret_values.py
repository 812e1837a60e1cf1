"""Secrets: what the planner may know of them, and their values for the one file that a role reads."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import cast

from headrace.api.core import Secret
from headrace.api.dataset import Dataset
from headrace.errors import ConfigError
from headrace.local.database import Database
from headrace.local.reconcile.scene import Scene
from headrace.plan.observed import SecretFacts
from headrace.plan.roles import PlainOption, SecretFile, plain_value

_KEY = "secret_digest_key"


def digest_key(database: Database) -> bytes:
    """The key of the digests of this backend, made once: without it, digests tell nothing of the values."""
    if not database.fact(_KEY):
        database.note(_KEY, secrets.token_hex(32))
    return bytes.fromhex(database.fact(_KEY))


def secret_facts(scene: Scene, key: bytes) -> dict[str, SecretFacts]:
    """All Secrets of the namespace without their values."""
    found = {}
    for record in scene.of("Secret"):
        values = cast("Secret", record.thing()).values()
        digest = hmac.new(key, digestmod=hashlib.sha256)
        for name in sorted(values):
            for part in (name.encode(), values[name]):
                digest.update(len(part).to_bytes(8, "big") + part)
        found[record.reference.name] = SecretFacts(frozenset(values), digest.hexdigest()[:32])
    return found


def secret_content(file: SecretFile, scene: Scene, datasets: Mapping[str, Dataset]) -> bytes:
    """What stands in a secret file. Raises `ConfigError`, which names the place and no value."""
    values = {}
    for option, place in file.values.items():
        if isinstance(place, PlainOption):
            values[option] = plain_value(datasets[place.dataset], place)
            continue
        record = scene.find("Secret", place.secret)
        held = cast("Secret", record.thing()).values() if record else {}
        if place.key not in held:
            raise ConfigError.of(f"Secret {place.secret} has no key {place.key}")
        values[option] = _text(held[place.key], place.secret, place.key)
    return json.dumps(values).encode()


def _text(value: bytes, secret: str, key: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ConfigError.of(f"key {key} of Secret {secret} is not text") from None

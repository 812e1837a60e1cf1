"""Secrets: what the planner may know of them, and their values for the one file that a role reads."""

from __future__ import annotations

import json
from collections.abc import Mapping

from headrace.api.dataset import Dataset
from headrace.errors import ConfigError
from headrace.local.datasets.desired_state import DesiredState
from headrace.local.store.secret_values import digests_of, values_of
from headrace.plan.observed import SecretFacts
from headrace.plan.roles import PlainOption, SecretFile, plain_value


def secret_facts(desired: DesiredState, key: bytes) -> dict[str, SecretFacts]:
    """All Secrets of the namespace without their values."""
    return {record.reference.name: SecretFacts(digests_of(record, key)) for record in desired.of("Secret")}


def secret_content(file: SecretFile, desired: DesiredState, datasets: Mapping[str, Dataset]) -> bytes:
    """The content of a secret file. Raises `ConfigError`, which names the place and no value."""
    values = {}
    for option, place in file.values.items():
        if isinstance(place, PlainOption):
            values[option] = plain_value(datasets[place.dataset], place)
            continue
        record = desired.find("Secret", place.secret)
        held = values_of(record) if record else {}
        if place.key not in held:
            raise ConfigError.of(f"Secret {place.secret} has no key {place.key}")
        values[option] = _text(held[place.key], place.secret, place.key)
    return json.dumps(values).encode()


def _text(value: bytes, secret: str, key: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ConfigError.of(f"key {key} of Secret {secret} is not text") from None

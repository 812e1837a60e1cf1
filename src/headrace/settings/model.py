"""The base of all settings: frozen, and an unknown key is an error, so that a slip of the hand is reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, SecretStr

from headrace.process.deferred_model import DeferredModel


class Model(DeferredModel):
    """An immutable value that was checked when it was made."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def secrets_in(value: object) -> Iterator[str]:
    """The credentials that a value holds, in clear, at whatever depth; never an empty one."""
    if isinstance(value, SecretStr):
        if secret := value.get_secret_value():
            yield secret
    elif isinstance(value, BaseModel):
        for _, part in value:
            yield from secrets_in(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from secrets_in(part)
    elif isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        for part in value:
            yield from secrets_in(part)

"""Rights of a cluster's tokens and of derived ones: a worker's from the whole one, a reader's from that.

None leads back to the one that it came from. docs/format/peer-protocol.md says how they are made.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import IntEnum

from pydantic import SecretStr

from headrace.errors import ConfigError, RefusedError

_WORKER_CONTEXT = b"headrace 2026 peer protocol, key of workers from the whole token"
_READER_CONTEXT = b"headrace 2026 peer protocol, key of readers from that of workers"
_KEY_BYTES = 32


class Rights(IntEnum):
    """The rights in a cluster; each includes those before it."""

    READER = 1
    WORKER = 2
    ADMINISTRATOR = 3

    @property
    def title(self) -> str:
        """The name of its token."""
        return {1: "a reader's token", 2: "a worker's token", 3: "the whole token"}[self.value]


_PREFIXES = {Rights.READER: "headrace.reader.", Rights.WORKER: "headrace.worker."}


def rights_of(token: SecretStr) -> Rights:
    """The rights of a token."""
    text = token.get_secret_value()
    return next(
        (rights for rights, start in _PREFIXES.items() if text.startswith(start)), Rights.ADMINISTRATOR
    )


def derive(token: SecretStr, rights: Rights) -> SecretStr:
    """The token that allows this and no more. Raises `RefusedError` when `token` allows less."""
    need(token, rights)
    if rights is Rights.ADMINISTRATOR:
        return token
    key = _worker_key(token) if rights_of(token) is not Rights.READER else _key_in(token)
    if rights is Rights.READER and rights_of(token) is not Rights.READER:
        key = _derived_key(key, _READER_CONTEXT)
    return SecretStr(_PREFIXES[rights] + key.hex())


def need(token: SecretStr, rights: Rights) -> None:
    """Raises `RefusedError` when a token allows less than that, and `ConfigError` when it is damaged."""
    given = rights_of(token)
    if given is not Rights.ADMINISTRATOR:
        _key_in(token)
    if given < rights:
        raise too_little(given, rights)


def too_little(given: Rights, needed: Rights) -> RefusedError:
    """For who has less than is needed."""
    other = "the file `token` of the master's state folder"
    if needed is Rights.WORKER:
        other += ", or what `headrace token --for worker` makes of it"
    return RefusedError.of(f"{given.title} is not enough for this", hint=f"it needs {needed.title}: {other}")


def _worker_key(token: SecretStr) -> bytes:
    if rights_of(token) is Rights.WORKER:
        return _key_in(token)
    return _derived_key(token.get_secret_value().encode(), _WORKER_CONTEXT)


def _derived_key(key: bytes, context: bytes) -> bytes:
    """The same as in the engine, `crates/engine/src/wire/token.rs`."""
    return hmac.digest(key, context, hashlib.sha256)


def _key_in(token: SecretStr) -> bytes:
    """The key in a derived token. Raises `ConfigError`."""
    digits = token.get_secret_value().rpartition(".")[2]
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise ConfigError.of(
            "the token is malformed: its prefix must be followed by 64 hexadecimal digits",
            hint="copy all of what `headrace token` printed",
        )
    return key

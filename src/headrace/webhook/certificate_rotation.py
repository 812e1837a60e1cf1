"""The rotation of certificates, and the authorities that are believed meanwhile: no I/O and no clock.

A rotation goes in steps, so that no API server ever meets a certificate whose authority it does not know: the next
pair is *prepared* and its authority announced; once it was announced for a while it is *promoted*; once every replica
had the time to serve it, the old authority is *retired*. Any replica may take any step; all of them are writes over
what was read, so one of them does.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from pydantic import SecretStr

from headrace.errors import ConfigError
from headrace.webhook.certificates import SKEW, Facts, Pair, facts_of

_CURRENT = ("ca.crt", "tls.crt", "tls.key")
_NEXT = ("next-ca.crt", "next-tls.crt", "next-tls.key")
_PREVIOUS = "previous-ca.crt"


@dataclass(frozen=True, slots=True)
class Rules:
    """The times of a rotation: how long a pair lives, and how long a change is given to reach everybody who must know
    of it."""

    life: timedelta = timedelta(days=90)
    grace_s: float = 120.0


@dataclass(frozen=True)
class Kept:
    """The content of the Secret. A part that is missing or incomplete is `None`, or empty."""

    current: Pair | None = None
    next: Pair | None = None
    previous_authority: str = ""

    @property
    def bundle(self) -> str:
        """The authorities that API servers must believe, each once."""
        pairs = [pair.authority for pair in (self.current, self.next) if pair]
        return "".join(dict.fromkeys(each for each in (*pairs, self.previous_authority) if each))


class Step(Enum):
    """The next step for the Secret."""

    MAKE = "make"
    PREPARE = "prepare"
    PROMOTE = "promote"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing is to be done for so long, if nobody changes anything."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Seen:
    """For how long this process has, by its own clock, seen all authorities announced, and this current pair.

    Times that others wrote are not compared with ours. `None` says: not yet.
    """

    announced_s: float | None = None
    current_s: float = 0.0


def next_step(kept: Kept, names: frozenset[str], now: datetime, seen: Seen, rules: Rules) -> Step | Rest:
    """The next step now."""
    current, following = _usable(kept.current, names, now), _usable(kept.next, names, now)
    if current is None:
        return Step.PROMOTE if following else Step.MAKE
    renewal = current.begins + (current.ends - current.begins) * 2 / 3
    if now < renewal:
        return _retiring(kept, seen, rules, (renewal - now).total_seconds())
    if following is None:
        return Step.PREPARE
    if seen.announced_s is None:
        return Rest(rules.grace_s)
    left_s = rules.grace_s - seen.announced_s
    return Rest(left_s) if left_s > 0 else Step.PROMOTE


def taken(step: Step, kept: Kept, fresh: Pair) -> Kept:
    """The content after a step; `fresh` is a new pair, for the steps that need one."""
    old = kept.current.authority if kept.current else ""
    match step:
        case Step.MAKE:
            return Kept(fresh, previous_authority=old)
        case Step.PREPARE:
            return replace(kept, next=fresh)
        case Step.PROMOTE:
            return Kept(kept.next, previous_authority=old)
        case Step.RETIRE:
            return replace(kept, previous_authority="")


def read_kept(secret: Mapping[str, Any] | None) -> Kept:
    """The content of a Secret; of a part that cannot be read, nothing."""
    data = (secret or {}).get("data") or {}
    return Kept(_pair(data, _CURRENT), _pair(data, _NEXT), _text(data, _PREVIOUS))


def data_of(kept: Kept) -> dict[str, str]:
    """The data of the Secret that holds this."""
    parts: dict[str, str] = {_PREVIOUS: kept.previous_authority} if kept.previous_authority else {}
    for pair, keys in ((kept.current, _CURRENT), (kept.next, _NEXT)):
        if pair:
            values = (pair.authority, pair.certificate, pair.key.get_secret_value())
            parts |= dict(zip(keys, values, strict=True))
    return {key: base64.b64encode(value.encode()).decode() for key, value in parts.items()}


def _retiring(kept: Kept, seen: Seen, rules: Rules, rest_s: float) -> Step | Rest:
    if not kept.previous_authority:
        return Rest(rest_s)
    left_s = rules.grace_s - seen.current_s
    return Rest(min(left_s, rest_s)) if left_s > 0 else Step.RETIRE


def _usable(pair: Pair | None, names: frozenset[str], now: datetime) -> Facts | None:
    if pair is None:
        return None
    try:
        facts = facts_of(pair)
    except ConfigError:
        return None
    return facts if facts.begins - SKEW <= now < facts.ends and names <= facts.names else None


def _pair(data: Mapping[str, Any], keys: tuple[str, str, str]) -> Pair | None:
    authority, certificate, key = (_text(data, each) for each in keys)
    return Pair(authority, certificate, SecretStr(key)) if authority and certificate and key else None


def _text(data: Mapping[str, Any], key: str) -> str:
    try:
        return base64.b64decode(data.get(key) or "", validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
        return ""

"""Keys that somebody else gave for a while: what all who give such have in common."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

_EARLY_S = 300.0
"""New ones are wanted so long before the end, as the clouds' own programs do it."""


@dataclass(frozen=True)
class TemporaryKeys:
    """Fields of an S3 origin, and when they end, in seconds since 1970; `None` for keys without an end."""

    fields: dict[str, str] = field(repr=False)
    expires_at_s: float | None

    def is_old(self) -> bool:
        """True if others are wanted."""
        return self.expires_at_s is not None and time.time() > renewal_time(self.expires_at_s)


def renewal_time(expires_at_s: float) -> float:
    """The time to get others, in seconds since 1970."""
    return expires_at_s - _EARLY_S


def seconds_of(text: str) -> float:
    """Seconds since 1970 of `2026-11-28T16:00:00Z`. Raises `ValueError`."""
    moment = datetime.fromisoformat(text.strip())
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

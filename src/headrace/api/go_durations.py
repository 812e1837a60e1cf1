"""Durations as kubectl's words have them: `30s`, `1m30s`, `2h`. Pure."""

from __future__ import annotations

import re

from headrace.errors import ConfigError

_PART = r"(\d+(?:\.\d+)?)(ms|s|m|h)"
_WHOLE = re.compile(rf"(?:{_PART})+", re.ASCII)
_FACTORS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds. A number alone is one of seconds. Raises `ConfigError`."""
    stripped = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", stripped, re.ASCII):
        return float(stripped)
    if not _WHOLE.fullmatch(stripped):
        raise ConfigError.of(f"'{text[:64]}' is not a duration", hint="write it like 30s, 5m or 1h30m")
    return sum(float(number) * _FACTORS[unit] for number, unit in re.findall(_PART, stripped))

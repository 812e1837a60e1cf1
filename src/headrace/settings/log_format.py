"""How programs write their logs; apart, for who needs no settings."""

from __future__ import annotations

from enum import StrEnum


class LogFormat(StrEnum):
    """How a line of the log is written."""

    TEXT = "text"
    JSON = "json"

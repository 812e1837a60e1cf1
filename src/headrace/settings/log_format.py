"""The format of logs; a module of its own, for callers that need no settings."""

from __future__ import annotations

from enum import StrEnum


class LogFormat(StrEnum):
    """The format of a line of the log."""

    TEXT = "text"
    JSON = "json"

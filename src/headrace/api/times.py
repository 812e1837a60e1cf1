"""Moments as Kubernetes writes them: RFC 3339 with whole seconds, in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def parse_time(value: Any) -> datetime:
    """A moment with its time zone, of a text or a `datetime`."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, str) and _RFC_3339.fullmatch(value):
        # Python reads at most six digits of a fraction.
        text = re.sub(r"(\.\d{6})\d+", r"\1", value.upper())
        return datetime.fromisoformat(text).astimezone(UTC)
    raise ValueError("is not a time: write it like 2026-01-31T09:30:00Z")


def format_time(moment: datetime) -> str:
    """`2026-01-31T09:30:00Z`, with a fraction only if there is one."""
    text = moment.astimezone(UTC).isoformat(timespec="auto")
    return text.replace("+00:00", "Z")


Time = Annotated[
    datetime,
    PlainValidator(parse_time),
    PlainSerializer(format_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment; written as RFC 3339."""

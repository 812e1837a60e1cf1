"""The text that `describe` prints: every field under words for people, then the events. Laid out as kubectl does.
Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.api.formats import format_age
from headrace.settings.origin_options import is_secret

_HIDDEN_METADATA = ("managedFields", "name", "namespace", "labels", "annotations")
_HIDDEN_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration",)
_ACRONYMS = ("API", "URL", "UID", "OSB", "GUID")
_PLAIN_WORD = re.compile(r"[A-Za-z-]+")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+|-+")
_GAP = 2
_OPTIONS = ("options", "sharedOptions")
_STARS = "**********"

Line = tuple[str, str | None]
"""What stands left of the colon, with its indent and the colon, and the value; `None` for a heading."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of the object."""

    type: str
    reason: str
    message: str
    source: str
    count: int
    first: datetime
    last: datetime


def describe_text(document: Mapping[str, Any], events: Sequence[EventRow], now: datetime) -> str:
    """The description of one object, without a line feed at its end."""
    lines = [*_head(document), *(_secret(document) if document["kind"] == "Secret" else _body(document))]
    if document["kind"] == "Secret":
        return _aligned(lines)
    if not events:
        return _aligned([*lines, ("Events:", "<none>")])
    return f"{_aligned([*lines, ('Events:', None)])}\n{_event_table(events, now)}"


def label_for(field: str) -> str:
    """`Cache Capacity` for `cacheCapacity`, `API Version` for `apiVersion`; what is no plain word stays as it is."""
    if not _PLAIN_WORD.fullmatch(field):
        return field
    parts = _PARTS.findall(field)
    words = (part.upper() if part.upper() in _ACRONYMS else part[:1].upper() + part[1:] for part in parts)
    return " ".join(words)


def _head(document: Mapping[str, Any]) -> Iterator[Line]:
    metadata = document.get("metadata", {})
    yield "Name:", str(metadata.get("name", ""))
    if metadata.get("namespace"):
        yield "Namespace:", str(metadata["namespace"])
    yield from _pairs("Labels:", metadata.get("labels") or {}, "=")
    annotations = metadata.get("annotations") or {}
    shown = {key: value for key, value in annotations.items() if key not in _HIDDEN_ANNOTATIONS}
    yield from _pairs("Annotations:", shown, ": ")


def _pairs(title: str, pairs: Mapping[str, str], between: str) -> Iterator[Line]:
    """All pairs in one column, the title before the first."""
    if not pairs:
        yield title, "<none>"
    for number, (key, value) in enumerate(sorted(pairs.items())):
        yield ("" if number else title), f"{key}{between}{value}"


def _body(document: Mapping[str, Any]) -> Iterator[Line]:
    metadata = {k: v for k, v in document.get("metadata", {}).items() if k not in _HIDDEN_METADATA}
    yield from _fields({**document, "metadata": metadata}, "")


def _fields(content: Mapping[str, Any], indent: str, *, are_options: bool = False) -> Iterator[Line]:
    for field in sorted(content):
        label, value = f"{indent}{label_for(field)}:", content[field]
        if isinstance(value, Mapping):
            yield label, None
            yield from _fields(value, f"{indent}  ", are_options=field in _OPTIONS)
        elif are_options and is_secret(field):
            # Some write keys in clear; what describe prints ends up in issues and chats.
            yield label, _STARS
        elif isinstance(value, list | tuple):
            yield label, None
            yield from _items(value, f"{indent}  ")
        else:
            yield label, _plain(value)


def _items(values: Iterable[Any], indent: str) -> Iterator[Line]:
    for value in values:
        if isinstance(value, Mapping):
            yield from _fields(value, indent)
        else:
            yield f"{indent}{_plain(value)}", None


def _plain(value: Any) -> str:
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _secret(document: Mapping[str, Any]) -> Iterator[Line]:
    """A Secret's keys and the length of what they hold, where that is known."""
    yield "", None
    yield "Type:", str(document.get("type") or "Opaque")
    yield "", None
    yield "Data", None
    yield "====", None
    for key, value in sorted((document.get("data") or {}).items()):
        yield f"{key}:", _length(str(value))


def _length(value: str) -> str:
    try:
        return f"{len(base64.b64decode(value, validate=True))} bytes"
    except ValueError:
        return "set"


def _aligned(lines: Iterable[Line]) -> str:
    """Lines that follow each other with values have these in one column."""
    text: list[str] = []
    block: list[tuple[str, str]] = []

    def flush() -> None:
        width = max((len(left) for left, _ in block), default=0) + _GAP
        text.extend(f"{left.ljust(width)}{value}" for left, value in block)
        block.clear()

    for left, value in lines:
        if value is None:
            flush()
            text.append(left)
        else:
            block.append((left, value))
    flush()
    return "\n".join(text)


def _event_table(events: Sequence[EventRow], now: datetime) -> str:
    rows = [("Type", "Reason", "Age", "From", "Message"), ("----", "------", "----", "----", "-------")]
    for event in sorted(events, key=lambda each: each.last):
        age = format_age(event.last, now)
        if event.count > 1:
            age = f"{age} (x{event.count} over {format_age(event.first, now)})"
        rows.append((event.type, event.reason, age, event.source, event.message.strip()))
    widths = [max(len(row[column]) for row in rows) + _GAP for column in range(4)]
    return "\n".join(
        "  " + "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + row[4]
        for row in rows
    )

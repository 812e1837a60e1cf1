"""Rows of the database as objects. A row of which a part cannot be read is an object all the same: it has its name, and
says what is wrong, so that it hides no other and a person can declare it again or delete it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

from headrace.api.times import parse_time
from headrace.local.store.records import Record, Reference

_log = logging.getLogger("headrace.local")

_Value = TypeVar("_Value")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def record_of(row: tuple[Any, ...]) -> Record:
    """An object from its row; the columns are those of the table."""
    kind, namespace, name, uid, generation, version, created, deleted, finalizers, content, status = row
    damage: list[str] = []
    wanted = _read("content", content, _values, damage)
    asked = _read("finalizers", finalizers, _names, damage)
    return Record(
        Reference(kind, namespace, name),
        uid,
        generation,
        version,
        _read("created", created, parse_time, []) or _LONG_AGO,
        (_read("deleted", deleted, parse_time, []) or _LONG_AGO) if deleted else None,
        asked or (),
        {} if damage or wanted is None else wanted,
        # What is not to be read is written anew by whoever looks after the object.
        _read("status", status, _values, []) if status else None,
        "; ".join(damage),
    )


def last_document(text: str, reference: Reference) -> dict[str, Any]:
    """How an object was last that is gone; its name alone where that cannot be read."""
    known = _read("last", text, _values, [])
    if known is not None:
        return known
    kind = reference.about
    metadata = {"name": reference.name, **({"namespace": reference.namespace} if reference.namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}


def readable(
    rows: Iterable[tuple[str, str]], what: str, read: Callable[[dict[str, Any]], _Value]
) -> list[_Value]:
    """The values in named rows of JSON. One that cannot be read is left out, and told of in the log."""
    found = []
    for name, text in rows:
        damage: list[str] = []
        value = _read("row", text, lambda text: read(_values(text)), damage)
        if value is None:
            _log.error("%s/%s: left out: %s", what, name, damage[0])
        else:
            found.append(value)
    return found


def _read(column: str, text: str, reads: Callable[[str], _Value], damage: list[str]) -> _Value | None:
    """A column's value; `None`, and a word about it in `damage`, where it is none."""
    try:
        # What was no UTF-8 cannot be encoded, and so is damage, too.
        text.encode()
        return reads(text)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        damage.append(f"its {column} in objects.db cannot be read: {_told(error)}")
        return None


def _told(error: Exception) -> str:
    """Why, without a word of the text itself, which may hold a secret."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "it is no UTF-8" if isinstance(error, UnicodeError) else "it is of another form"


def _values(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("metadata", {}), dict):
        raise ValueError
    return found


def _names(text: str) -> tuple[str, ...]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError
    return tuple(found)

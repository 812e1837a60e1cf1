"""Events of objects, for people: the same event again counts up, old ones make room."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from headrace.api.times import format_time, parse_time
from headrace.local.store.database import Database
from headrace.local.store.records import Record, Reference

KEPT = 10_000
LONGEST_MESSAGE = 1024
_ALL = "SELECT kind, namespace, name, type, reason, message, source, count, first, last FROM events ORDER BY last, id"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, once or several times."""

    reference: Reference
    type: str
    reason: str
    message: str
    source: str
    count: int
    first: datetime
    last: datetime


class EventLog:
    """All events that are kept, the latest last."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock

    def add(
        self,
        record: Record,
        kind_of_event: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        source: str = "headrace",
    ) -> None:
        """Notes that something happened to an object. `message` holds no secret."""
        with self._database.transaction() as connection:
            note_event(connection, record, (kind_of_event, reason, message, source), self._clock())

    def select(self, namespace: str | None = None, reference: Reference | None = None) -> list[Event]:
        """Those of all objects, of a namespace, or of one object; the latest last."""
        with self._database.reading() as connection:
            rows = connection.execute(_ALL).fetchall()
        found = [_event(row) for row in rows]
        return [
            event
            for event in found
            if (namespace is None or event.reference.namespace in ("", namespace))
            and (reference is None or event.reference == reference)
        ]


def note_event(
    connection: sqlite3.Connection, record: Record, told: tuple[str, str, str, str], now: datetime
) -> None:
    """Notes type, reason, message and source of an event, within a transaction."""
    reference, when = record.reference, format_time(now.replace(microsecond=0))
    kind_of_event, reason, message, source = told
    key = (reference.kind, reference.namespace, reference.name, record.uid)
    connection.execute(
        "INSERT INTO events (kind, namespace, name, uid, type, reason, message, source, count, first, last) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?) "
        "ON CONFLICT DO UPDATE SET count = count + 1, last = excluded.last",
        (*key, kind_of_event, reason, message[:LONGEST_MESSAGE], source, when, when),
    )
    connection.execute(
        "DELETE FROM events WHERE id IN (SELECT id FROM events ORDER BY last DESC, id DESC LIMIT -1 OFFSET ?)",
        (KEPT,),
    )


def _event(row: tuple[str, str, str, str, str, str, str, int, str, str]) -> Event:
    kind, namespace, name, kind_of_event, reason, message, source, count, first, last = row
    return Event(
        Reference(kind, namespace, name),
        kind_of_event,
        reason,
        message,
        source,
        count,
        parse_time(first),
        parse_time(last),
    )

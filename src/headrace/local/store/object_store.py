"""The objects of the local backend: read at one moment, changed in transactions, watched from a version on.

Every change of an object gets the next `resource_version` of the whole store. A change of an object that was read
before names its version, and is refused if there is another one by now.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.errors import BusyError
from headrace.local.store.database import Database
from headrace.local.store.records import Content, Record, Reference, missing
from headrace.local.store.rows import last_document, record_of
from headrace.local.store.transaction import Transaction, present_version

_log = logging.getLogger("headrace.local")

Clock = Callable[[], datetime]
_COLUMNS = (
    "kind, namespace, name, uid, generation, resource_version, created, deleted, finalizers, content, status"
)


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of objects: their kinds, and if not all of them, a namespace and names."""

    kinds: tuple[str, ...]
    namespace: str | None = None
    names: tuple[str, ...] = ()

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Those in which objects are meant; none for all. Objects without a namespace are meant by any."""
        return () if self.namespace is None else ("", self.namespace)

    def has(self, reference: Reference) -> bool:
        """True for an object that is meant."""
        return (
            reference.kind in self.kinds
            and (not self.namespaces or reference.namespace in self.namespaces)
            and (not self.names or reference.name in self.names)
        )


@dataclass(frozen=True, slots=True)
class Change:
    """The change of an object: ADDED, MODIFIED or DELETED, and how it is now (or was last)."""

    type: str
    document: dict[str, Any]
    resource_version: int


class Store:
    """All objects. Its methods block for as long as the disk takes; any thread may call them."""

    def __init__(self, database: Database, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock
        self._listeners: list[Callable[[tuple[Reference, ...]], None]] = []

    def on_change(self, listener: Callable[[tuple[Reference, ...]], None]) -> None:
        """Calls `listener` after each transaction, in the thread that made it, with the objects that it changed.

        A listener's fault is logged: the change is made by then, and is not reported as failed.
        """
        self._listeners.append(listener)

    def get(self, reference: Reference) -> Record | None:
        """The object, if it is there."""
        with self._database.reading() as connection:
            return find(connection, reference)

    def need(self, reference: Reference) -> Record:
        """The object. Raises `MissingFileError`."""
        record = self.get(reference)
        if record is None:
            raise missing(reference)
        return record

    def select(self, selection: Selection) -> tuple[list[Record], int]:
        """The objects that are meant, in the order of their kinds, namespaces and names, and the store's version."""
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM objects WHERE {_marks('kind', selection.kinds)}"  # noqa: S608 - marks alone
                f" AND {_marks('namespace', selection.namespaces)} AND {_marks('name', selection.names)}",
                (*selection.kinds, *selection.namespaces, *selection.names),
            )
            found = [record_of(row) for row in rows]
            version = present_version(connection)
        order = {kind: place for place, kind in enumerate(selection.kinds)}
        return sorted(found, key=lambda each: (order[each.reference.kind], each.reference)), version

    @contextmanager
    def changing(self) -> Iterator[Transaction]:
        """Changes that become true together when the block ends, or not at all."""
        with self._database.transaction() as connection:
            transaction = Transaction(connection, find, self._clock)
            yield transaction
        changed = transaction.changed()
        for listener in self._listeners if changed else ():
            try:
                listener(changed)
            except Exception:
                _log.exception("store: a change was made, and not everybody was told of it")

    def set_status(self, record: Record, status: Content) -> Record:
        """Gives the object of this record (by its uid) another status. Raises `MissingFileError` when it is gone."""
        with self.changing() as transaction:
            return transaction.set_status(record, status)

    def set_finalizers(self, record: Record, finalizers: Iterable[str]) -> Record | None:
        """Gives it other finalizers; `None` when it was being deleted and nobody is left to be asked."""
        with self.changing() as transaction:
            return transaction.set_finalizers(record, finalizers)

    def changes(self, since: int, selection: Selection) -> tuple[list[Change], int]:
        """The changes of the selected objects after version `since`, and the version to go on from.

        Of an object that changed several times only the last state is told. Raises `BusyError` when `since` is too
        long ago: list anew then.
        """
        with self._database.reading() as connection:
            now = present_version(connection)
            oldest = connection.execute("SELECT min(resource_version) FROM changes").fetchone()[0]
            if since > now or (oldest is not None and since < oldest - 1):
                raise BusyError.of(
                    f"the changes since version {since} are not known any more", hint="list anew"
                )
            rows = connection.execute(
                "SELECT resource_version, type, kind, namespace, name, last FROM changes "
                "WHERE resource_version > ? ORDER BY resource_version",
                (since,),
            ).fetchall()
            found = [_change(connection, row) for row in rows if selection.has(Reference(*row[2:5]))]
        return [change for change in found if change is not None], now


def _marks(column: str, values: tuple[str, ...]) -> str:
    """A condition that a column has one of the values; none for all."""
    return f"{column} IN ({', '.join('?' * len(values))})" if values else "true"


def find(connection: sqlite3.Connection, reference: Reference) -> Record | None:
    """The object as the transaction sees it."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM objects WHERE kind = ? AND namespace = ? AND name = ?",  # noqa: S608 - our columns
        (reference.kind, reference.namespace, reference.name),
    ).fetchone()
    return record_of(row) if row else None


def _change(connection: sqlite3.Connection, row: tuple[Any, ...]) -> Change | None:
    version, kind_of_change, kind, namespace, name, last = row
    reference = Reference(kind, namespace, name)
    if last is not None:
        return Change(kind_of_change, last_document(last, reference), version)
    record = find(connection, reference)
    if record is None or record.resource_version != version:
        return None
    return Change(kind_of_change, record.document(), version)

"""Changes of objects within one transaction of the store."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from headrace.api.times import format_time, parse_time
from headrace.errors import ConfigError
from headrace.local.store.event_log import note_event
from headrace.local.store.records import Content, Record, Reference, already_there, conflict, missing
from headrace.local.store.rows import last_document

KEPT_CHANGES = 10_000
LARGEST_OBJECT_BYTES = 1_500_000
_A_MOMENT = timedelta(minutes=10)
_SEALED = "**********"

Find = Callable[[sqlite3.Connection, Reference], Record | None]


class Transaction:
    """Changes objects. Its changes are true when its transaction has ended."""

    def __init__(self, connection: sqlite3.Connection, find: Find, clock: Callable[[], datetime]) -> None:
        self._connection = connection
        self._find = find
        self._now = clock().replace(microsecond=0)
        self._version = present_version(connection)
        self._changed: dict[Reference, None] = {}

    def changed(self) -> tuple[Reference, ...]:
        """The objects that it has changed so far."""
        return tuple(self._changed)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Changes that are all made, or none of them when the block raises; what was changed before stays."""
        before = self._version, dict(self._changed)
        self._connection.execute("SAVEPOINT attempt")
        try:
            yield
        except BaseException:
            # A disk that is full may have ended the whole transaction already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO attempt")
                self._connection.execute("RELEASE attempt")
            self._version, self._changed = before
            raise
        self._connection.execute("RELEASE attempt")

    def get(self, reference: Reference) -> Record | None:
        """The object as it is by now."""
        return self._find(self._connection, reference)

    def need(self, reference: Reference) -> Record:
        """The same. Raises `MissingFileError`."""
        record = self.get(reference)
        if record is None:
            raise missing(reference)
        return record

    def create(self, reference: Reference, content: Content, finalizers: Iterable[str] = ()) -> Record:
        """A new object. Raises `ConfigError` when there is one already."""
        if self.get(reference) is not None:
            raise already_there(reference)
        text = _text(reference, content)
        self._connection.execute(
            "INSERT INTO objects VALUES (?, ?, ?, ?, 1, ?, ?, NULL, ?, ?, NULL)",
            (
                *_key(reference),
                str(uuid.uuid4()),
                self._note("ADDED", reference),
                format_time(self._now),
                json.dumps(list(finalizers)),
                text,
            ),
        )
        return self.need(reference)

    def replace(self, reference: Reference, content: Content, *, expected: int | None = None) -> Record:
        """Gives an object other content; the same content is no change.

        `expected` is the version that was read. Raises `MissingFileError`, and `BusyError` for another version.
        """
        record = self._expect(reference, expected)
        if record.content == content:
            return record
        text = _text(reference, content)
        # The generation counts changes of what is wanted; labels and annotations are no part of that.
        grown = record.generation + (_wanted(record.content) != _wanted(content))
        if record.damage:
            # Whoever looks after it asks to be asked again.
            self._update(record, "finalizers = '[]'")
        self._update(record, "generation = ?, content = ?", grown, text)
        return self.need(reference)

    def set_status(self, record: Record, status: Content) -> Record:
        """Gives the object of this record another status. Raises `MissingFileError` when it is gone."""
        present = self._same(record)
        if present.status == status:
            return present
        self._update(present, "status = ?", json.dumps(status))
        return self.need(record.reference)

    def set_finalizers(self, record: Record, finalizers: Iterable[str]) -> Record | None:
        """Gives it other finalizers; `None` when that was the end of its deletion."""
        present, wanted = self._same(record), tuple(finalizers)
        if present.finalizers != wanted:
            if present.deleted is not None and not wanted:
                self._remove(present)
                return None
            self._update(present, "finalizers = ?", json.dumps(wanted))
        return self.need(record.reference)

    def delete(self, reference: Reference, *, expected: int | None = None) -> Record | None:
        """Asks for an object's deletion: it is gone now (`None`), or when its finalizers are.

        Objects that it owned are deleted as well once it is gone, in the same transaction. Raises `MissingFileError`,
        and `BusyError` for another version than `expected`.
        """
        record = self._expect(reference, expected)
        if not record.finalizers:
            self._remove(record)
            return None
        if record.deleted is None:
            self._update(record, "deleted = ?, generation = generation + 1", format_time(self._now))
        return self.need(reference)

    def went_along(self, reference: Reference) -> bool:
        """True when there was such an object a moment ago, and it has gone with what owned it."""
        row = self._connection.execute(
            "SELECT last FROM changes WHERE kind = ? AND namespace = ? AND name = ? "
            "ORDER BY resource_version DESC LIMIT 1",
            _key(reference),
        ).fetchone()
        metadata = last_document(row[0], reference)["metadata"] if row and row[0] else {}
        gone = metadata.get("deletionTimestamp") if metadata.get("ownerReferences") else None
        return gone is not None and self._now - parse_time(gone) < _A_MOMENT

    def orphan(self, owner: Record) -> None:
        """Lets what an object owns outlive it."""
        for record in self._owned(owner):
            self._disown(record, owner)

    def note_event(self, record: Record, kind_of_event: str, reason: str, message: str) -> None:
        """Tells people of something that happened to the object. `message` holds no secret."""
        note_event(self._connection, record, (kind_of_event, reason, message, "headrace"), self._now)

    def _same(self, record: Record) -> Record:
        present = self.get(record.reference)
        if present is None or present.uid != record.uid:
            raise missing(record.reference)
        return present

    def _expect(self, reference: Reference, expected: int | None) -> Record:
        record = self.need(reference)
        if expected is not None and record.resource_version != expected:
            raise conflict(reference)
        return record

    def _update(self, record: Record, assignments: str, *values: Any) -> None:
        self._connection.execute(
            f"UPDATE objects SET {assignments}, resource_version = ? WHERE uid = ?",  # noqa: S608 - our own words
            (*values, self._note("MODIFIED", record.reference), record.uid),
        )

    def _remove(self, record: Record) -> None:
        self._connection.execute("DELETE FROM objects WHERE uid = ?", (record.uid,))
        self._note("DELETED", record.reference, _sealed(record.document()))
        for owned in self._owned(record):
            if len(owners_of(owned)) > 1:
                self._disown(owned, record)
            elif owned.deleted is None:
                self.delete(owned.reference)

    def _owned(self, owner: Record) -> list[Record]:
        """The objects that say this one owns them. A reference to what never was here does nothing."""
        rows = self._connection.execute(
            "SELECT kind, namespace, name FROM objects WHERE instr(content, ?) > 0", (owner.uid,)
        ).fetchall()
        found = [self.need(Reference(*row)) for row in rows]
        return [record for record in found if owner.uid in owners_of(record)]

    def _disown(self, record: Record, owner: Record) -> None:
        metadata = dict(record.content["metadata"])
        kept = [each for each in metadata.pop("ownerReferences") if each["uid"] != owner.uid]
        metadata |= {"ownerReferences": kept} if kept else {}
        self.replace(record.reference, {**record.content, "metadata": metadata})

    def _note(self, kind_of_change: str, reference: Reference, last: dict[str, Any] | None = None) -> int:
        """The version of a change, which is written down for those who watch."""
        self._version += 1
        self._changed[reference] = None
        version = self._version
        if last is not None:
            last["metadata"]["resourceVersion"] = str(version)
        self._connection.execute(
            "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)",
            (version, kind_of_change, *_key(reference), json.dumps(last) if last else None),
        )
        self._connection.execute("DELETE FROM changes WHERE resource_version <= ?", (version - KEPT_CHANGES,))
        self._connection.execute(
            "UPDATE facts SET value = ? WHERE name = 'resource_version'", (str(version),)
        )
        return version


def present_version(connection: sqlite3.Connection) -> int:
    """The store's version as the transaction sees it."""
    return int(connection.execute("SELECT value FROM facts WHERE name = 'resource_version'").fetchone()[0])


def owners_of(record: Record) -> tuple[str, ...]:
    """The identities of an object's owners."""
    references = record.content.get("metadata", {}).get("ownerReferences") or ()
    return tuple(str(each.get("uid")) for each in references)


def _key(reference: Reference) -> tuple[str, str, str]:
    return reference.kind, reference.namespace, reference.name


def _wanted(content: Content) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "metadata"}


def _text(reference: Reference, content: Content) -> str:
    text = json.dumps(content)
    if len(text) > LARGEST_OBJECT_BYTES:
        raise ConfigError.of(
            f"{reference} is too large: {len(text):,} of at most {LARGEST_OBJECT_BYTES:,} bytes"
        )
    return text


def _sealed(document: dict[str, Any]) -> dict[str, Any]:
    """A deleted Secret leaves its keys behind, never its values."""
    if document["kind"] != "Secret":
        return document
    return {
        key: dict.fromkeys(value, _SEALED)
        if key in ("data", "stringData") and isinstance(value, Mapping)
        else value
        for key, value in document.items()
    }

"""A run of an operation on one machine, and its note, by which the next supervisor goes on with the same work."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from headrace.api.kinds import Operation
from headrace.local.store.rows import readable
from headrace.operations.run_notes import Note
from headrace.operations.work import uid_of

if TYPE_CHECKING:
    from headrace.local.datasets.desired_state import DesiredState
    from headrace.local.store.database import Database
    from headrace.local.store.records import Record

_PREFIX = "job:"


@dataclass(frozen=True, slots=True)
class Task:
    """One run of an operation, and the declarations at the moment that it is ordered."""

    record: Record
    desired: DesiredState
    run: str


class RunNotes:
    """The notes of all operations, by their identities."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, operation: Operation) -> Note | None:
        """The note of an operation; `None` without."""
        return self.read(uid_of(operation))

    async def keep(self, operation: Operation, note: Note) -> None:
        """Writes it down."""
        self.write(uid_of(operation), note)

    async def strike(self, operation: Operation) -> None:
        """Forgets it."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM facts WHERE name = ?", (f"{_PREFIX}{uid_of(operation)}",))

    def read(self, uid: str) -> Note | None:
        """The note of the operation with this identity."""
        text = self._database.fact(f"{_PREFIX}{uid}")
        # Of one that cannot be read the work is ordered again, which does nothing twice.
        found = readable([(uid, text)], "operation", lambda content: Note(**content)) if text else []
        return found[0] if found else None

    def write(self, uid: str, note: Note) -> None:
        """Writes the note of the operation with this identity down."""
        self._database.note(f"{_PREFIX}{uid}", json.dumps(asdict(note)))

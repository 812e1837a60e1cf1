"""The common parts of every kind of work for operations: what it is given, what is written down of it, what it answers.

The note of a run outlives the supervisor, so that the next one goes on with the same work.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from headrace.local.store.rows import readable
from headrace.operations.run_notes import Note, moment
from headrace.plan.job_specs import Job
from headrace.plan.operation_inputs import JobFacts

if TYPE_CHECKING:
    from headrace.local.datasets.desired_state import DesiredState
    from headrace.local.store.database import Database
    from headrace.local.store.records import Record

__all__ = ["JobDriver", "Note", "RunNotes", "Task", "moment"]

_PREFIX = "job:"
_J_contra = TypeVar("_J_contra", bound=Job, contravariant=True)


@dataclass(frozen=True, slots=True)
class Task:
    """One run of an operation, and the declarations at the moment that it is ordered."""

    record: Record
    desired: DesiredState
    run: str


class JobDriver(Protocol, Generic[_J_contra]):
    """How one kind of work is done. Used from one event loop; `begin` alone may take its time."""

    async def begin(self, task: Task, job: _J_contra, note: Note, /) -> Note:
        """Orders the work; the note as it is to be kept. Raises `HeadraceError` for a run that has failed.

        It is called again for the same run after a supervisor died within it, and when `facts` knew of nothing.
        """

    async def facts(self, uid: str, note: Note, /) -> JobFacts | None:
        """How far the work is; `None` when it is lost and to be ordered again."""

    async def cancel(self, uid: str, note: Note, /) -> bool:
        """Stops the work; true when nothing of it is left, so that it may be forgotten."""

    async def forget(self, uid: str, note: Note, /) -> None:
        """The operation is gone: takes away what was kept for it."""


class RunNotes:
    """The notes of all operations, by their identities."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, uid: str) -> Note | None:
        """The note of an operation; `None` without."""
        text = self._database.fact(f"{_PREFIX}{uid}")
        # Of one that cannot be read the work is ordered again, which does nothing twice.
        found = readable([(uid, text)], "operation", lambda content: Note(**content)) if text else []
        return found[0] if found else None

    def write(self, uid: str, note: Note) -> None:
        """Writes it down."""
        self._database.note(f"{_PREFIX}{uid}", json.dumps(asdict(note)))

    def strike(self, uid: str) -> None:
        """Forgets it."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM facts WHERE name = ?", (f"{_PREFIX}{uid}",))

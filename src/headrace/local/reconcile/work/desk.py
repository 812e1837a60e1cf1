"""What every kind of work for operations has in common: what it is given, what is written down of it, what it answers.

The note of a run outlives the supervisor, so that the next one goes on with the same work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from headrace.api.times import format_time, parse_time
from headrace.plan.operation_scene import JobFacts, JobState
from headrace.plan.orders import Job

if TYPE_CHECKING:
    from headrace.local.database import Database
    from headrace.local.reconcile.scene import Scene
    from headrace.local.records import Record

_PREFIX = "job:"
_J_contra = TypeVar("_J_contra", bound=Job, contravariant=True)


@dataclass(frozen=True, slots=True)
class Note:
    """What is written down of the work for one run. `details` are the kind's own, in JSON's types, without secrets."""

    kind: str
    run: str
    started: str
    ended: str = ""
    fault: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def started_at(self) -> datetime:
        """When it was ordered."""
        return parse_time(self.started)

    def failed(self, message: str) -> Note:
        """The same work after a fault that ended it."""
        return replace(self, fault=message, ended=moment())

    def with_details(self, **details: Any) -> Note:
        """The same work with more to be known of it."""
        return replace(self, details={**self.details, **details})

    def facts(self, state: JobState, **more: Any) -> JobFacts:
        """How far the run is."""
        ended = parse_time(self.ended) if self.ended else None
        return JobFacts(self.run, state, self.started_at, **{"ended_at": ended, **more})


@dataclass(frozen=True, slots=True)
class Task:
    """One run of an operation, and the declarations at the moment that it is ordered."""

    record: Record
    scene: Scene
    run: str


class Work(Protocol, Generic[_J_contra]):
    """How one kind of work is done. Used from one event loop; `begin` alone may take its time."""

    async def begin(self, task: Task, job: _J_contra, note: Note) -> Note:
        """Orders the work; the note as it is to be kept. Raises `HeadraceError` for a run that has failed.

        It is called again for the same run after a supervisor died within it, and when `facts` knew of nothing.
        """

    async def facts(self, uid: str, note: Note) -> JobFacts | None:
        """How far the work is; `None` when it is lost and to be ordered again."""

    async def cancel(self, uid: str, note: Note) -> bool:
        """Stops the work; true when nothing of it is left, so that it may be forgotten."""

    async def forget(self, uid: str, note: Note) -> None:
        """The operation is gone: takes away what was kept for it."""


class Notes:
    """The notes of all operations, by their identities."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, uid: str) -> Note | None:
        """What is written down of one; `None` without."""
        text = self._database.fact(f"{_PREFIX}{uid}")
        return Note(**json.loads(text)) if text else None

    def write(self, uid: str, note: Note) -> None:
        """Writes it down."""
        self._database.note(f"{_PREFIX}{uid}", json.dumps(asdict(note)))

    def strike(self, uid: str) -> None:
        """Forgets it."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM facts WHERE name = ?", (f"{_PREFIX}{uid}",))


def moment() -> str:
    """Now, as it is written down."""
    return format_time(datetime.now(UTC).replace(microsecond=0))

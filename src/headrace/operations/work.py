"""The work for operations, one driver a kind: ordered once a run, followed, cancelled, forgotten. For both backends.

A note keeps what was ordered, so that the next process goes on with the same work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from headrace.api.kinds import Operation
from headrace.errors import BusyError, HeadraceError, OriginUnreachableError
from headrace.operations.run_notes import WORK, Note, moment
from headrace.plan.job_specs import Job
from headrace.plan.operation_inputs import JobFacts, JobState

_OWN_FAULT = "Headrace met a fault of its own; its log says which"
# The ledger of a copy lies where its last run was.
_GOES_ON = "copy"

_Task = TypeVar("_Task")
_Task_contra = TypeVar("_Task_contra", contravariant=True)
_Job_contra = TypeVar("_Job_contra", bound=Job, contravariant=True)


class JobDriver(Protocol, Generic[_Task_contra, _Job_contra]):
    """How one kind of work is done. Used from one event loop; `begin` alone may take its time.

    A task is a run of an operation, with what is declared and seen at the moment that it is ordered.
    """

    async def begin(self, task: _Task_contra, job: _Job_contra, note: Note, /) -> Note:
        """Orders the work; the note as it is to be kept. Raises `HeadraceError` for a run that has failed, `BusyError`
        or `OriginUnreachableError` for one that cannot begin yet.

        It is called again for the same run after its caller died within it, and when `facts` knew of nothing.
        """

    async def facts(self, operation: Operation, note: Note, /) -> JobFacts | None:
        """How far the work is; `None` when it is lost and to be ordered again, or nothing is left of it."""

    async def cancel(self, operation: Operation, note: Note, /) -> bool:
        """Stops the work; true when nothing of it is left, so that it may be forgotten. Else the facts tell when."""

    async def forget(self, operation: Operation, note: Note, /) -> None:
        """The operation is gone: takes away what was kept for it."""


class Notes(Protocol):
    """The notes of operations, as a backend keeps them."""

    def find(self, operation: Operation) -> Note | None:
        """The note of one; `None` without, and for one that cannot be read: that work is ordered again."""

    async def keep(self, operation: Operation, note: Note) -> None:
        """Writes it down."""

    async def strike(self, operation: Operation) -> None:
        """Forgets it."""


@dataclass(slots=True)
class Work(Generic[_Task]):
    """The work for the operations of all datasets. Used from one event loop."""

    drivers: Mapping[str, JobDriver[_Task, Any]]
    notes: Notes
    log: logging.Logger
    _starting: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _hindrances: dict[str, str] = field(default_factory=dict)

    async def facts(self, operation: Operation) -> JobFacts | None:
        """How far the work for an operation is; `None` when there is none, or it was lost."""
        note = self._note(operation)
        if note is None:
            return None
        if note.fault:
            code = note.details.get("exit_code")
            known = code if isinstance(code, int) else None
            return note.facts(JobState.FAILED, message=note.fault, exit_code=known)
        if uid_of(operation) in self._starting:
            return note.facts(JobState.STARTING)
        return await self.drivers[note.kind].facts(operation, note)

    def hindrance(self, operation: Operation) -> str:
        """Why its work could not begin when that was tried last; empty when nothing hindered it."""
        return self._hindrances.get(uid_of(operation), "")

    def start(self, operation: Operation, task: _Task, run: str, job: Job) -> None:
        """Orders the work of a run, unless that is under way."""
        uid = uid_of(operation)
        if uid in self._starting:
            return
        begun = asyncio.create_task(self._begin(operation, task, run, job))
        self._starting[uid] = begun
        begun.add_done_callback(lambda _: self._starting.pop(uid, None))

    async def cancel(self, operation: Operation) -> None:
        """Stops the work."""
        begun = self._starting.get(uid_of(operation))
        if begun is not None:
            begun.cancel()
            # What it began to make must be there to be taken away.
            await asyncio.gather(begun, return_exceptions=True)
        note = self._note(operation)
        if note is not None and await self.drivers[note.kind].cancel(operation, note):
            await self.forget(operation)

    async def forget(self, operation: Operation) -> None:
        """The operation is gone."""
        self._hindrances.pop(uid_of(operation), None)
        note = self._note(operation)
        if note is not None:
            await self.drivers[note.kind].forget(operation, note)
            await self.notes.strike(operation)

    async def close(self) -> None:
        """Orders nothing any more; what was ordered goes on."""
        begun = list(self._starting.values())
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)

    async def _begin(self, operation: Operation, task: _Task, run: str, job: Job) -> None:
        note = _fresh(self._note(operation), WORK[type(job)], run)
        uid = uid_of(operation)
        try:
            await self.notes.keep(operation, note)
            await self.notes.keep(operation, await self.drivers[note.kind].begin(task, job, note))
            self._hindrances.pop(uid, None)
        except (BusyError, OriginUnreachableError) as error:
            # Ordered again by the next pass; what lasts too long is a failure by the planner's own deadline.
            self.log.warning("operation/%s: cannot begin yet: %s", operation.name, error)
            self._hindrances[uid] = error.message
        except HeadraceError as error:
            await self._fail(operation, note, error.message)
        except Exception:
            self.log.exception("operation/%s: cannot begin", operation.name)
            await self._fail(operation, note, _OWN_FAULT)

    async def _fail(self, operation: Operation, note: Note, message: str) -> None:
        """Writes down why a run has failed, beside what was written down of it meanwhile."""
        there = self._note(operation)
        is_same = there is not None and (there.kind, there.run) == (note.kind, note.run)
        try:
            await self.notes.keep(operation, (there if there and is_same else note).failed(message))
        except HeadraceError as error:
            self.log.warning("operation/%s: its failure is not written down: %s", operation.name, error)

    def _note(self, operation: Operation) -> Note | None:
        note = self.notes.find(operation)
        return note if note is not None and note.kind in self.drivers else None


def uid_of(operation: Operation) -> str:
    """The identity of an operation."""
    return operation.metadata.uid or ""


def _fresh(before: Note | None, kind: str, run: str) -> Note:
    """The note of a run that is ordered; the same run again began when it was ordered first."""
    if before is None:
        return Note(kind, run, moment())
    is_again = (before.kind, before.run) == (kind, run)
    kept = before.details if before.kind == kind == _GOES_ON else {}
    return Note(kind, run, before.started if is_again else moment(), details=kept)

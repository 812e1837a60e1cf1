"""The common parts of every kind of work for operations: what it is given, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from headrace.api.dataset import Dataset
from headrace.api.kinds import Operation
from headrace.operations.run_notes import Note
from headrace.operator.desired_state import DesiredState
from headrace.operator.observer import Observation
from headrace.plan.job_specs import Job
from headrace.plan.operation_inputs import JobFacts

__all__ = ["JobDriver", "Note", "Task"]

_J_contra = TypeVar("_J_contra", bound=Job, contravariant=True)


@dataclass(frozen=True, slots=True)
class Task:
    """One run of an operation, and what is declared and seen at the moment that it is ordered."""

    operation: Operation
    run: str
    desired: DesiredState
    observation: Observation
    datasets: Mapping[str, Dataset]


class JobDriver(Protocol, Generic[_J_contra]):
    """How one kind of work is done. Used from one event loop; `begin` alone may take its time."""

    async def begin(self, task: Task, job: _J_contra, note: Note, /) -> Note:
        """Orders the work; the note as it is to be kept. Raises `HeadraceError` for a run that has failed.

        It is called again for the same run after an operator died within it, and when `facts` knew of nothing.
        """

    async def facts(self, operation: Operation, note: Note, /) -> JobFacts | None:
        """How far the work is; `None` when it is lost and to be ordered again, or nothing is left of it."""

    async def cancel(self, operation: Operation, note: Note, /) -> object:
        """Stops the work. The facts tell when nothing of it is left."""

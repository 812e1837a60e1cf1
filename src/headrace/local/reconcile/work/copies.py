"""Copies between datasets and storage."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import UnsupportedError
from headrace.local.reconcile.work.desk import Note, Task
from headrace.plan.operation_scene import JobFacts
from headrace.plan.orders import CopyJob


@dataclass(frozen=True, slots=True)
class CopyWork:
    """The work of DataMigrates."""

    async def begin(self, task: Task, job: CopyJob, note: Note) -> Note:  # noqa: ARG002
        """Says that it cannot be done."""
        raise UnsupportedError.of("the local backend cannot do this kind of operation yet")

    async def facts(self, uid: str, note: Note) -> JobFacts | None:  # noqa: ARG002
        """There is none."""
        return None

    async def cancel(self, uid: str, note: Note) -> bool:  # noqa: ARG002
        """There is none."""
        return True

    async def forget(self, uid: str, note: Note) -> None:
        """There is none."""

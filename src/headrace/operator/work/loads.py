"""Loads: ordered from the master of their dataset, and followed by its reports."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api.kinds import Operation
from headrace.operations.loads import Loads
from headrace.operator.work.desk import Note, Task
from headrace.plan.operation_scene import JobFacts
from headrace.plan.orders import LoadJob


@dataclass(frozen=True, slots=True)
class LoadWork:
    """The work of DataLoads."""

    loads: Loads

    async def begin(self, task: Task, job: LoadJob, note: Note) -> Note:  # noqa: ARG002
        """Orders a load for each part."""
        return await self.loads.begin(job, note)

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:  # noqa: ARG002
        """What the master reports; `None` when it lost the loads."""
        return await self.loads.facts(note)

    async def cancel(self, operation: Operation, note: Note) -> None:  # noqa: ARG002
        """Stops the loads; what is cached stays."""
        await self.loads.cancel(note)

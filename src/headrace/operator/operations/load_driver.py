"""Loads: ordered from the master of their dataset, and followed by its reports."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api.kinds import Operation
from headrace.operations.loads import Loads
from headrace.operator.operations.job_driver import Note, Task
from headrace.plan.job_specs import LoadJob
from headrace.plan.operation_inputs import JobFacts


@dataclass(frozen=True, slots=True)
class LoadDriver:
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

"""Programs that are run on a dataset: each a Job. A run that has begun never begins again by itself."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api.dataprocess import DataProcess
from headrace.api.kinds import Operation
from headrace.operator.rendering.processes import process_objects
from headrace.operator.work.desk import Note, Task
from headrace.operator.work.job_desk import JobDesk
from headrace.plan.operation_scene import JobFacts, JobState
from headrace.plan.orders import ProcessJob

_ORDERED = "ordered"


@dataclass(frozen=True, slots=True)
class ProcessWork:
    """The work of DataProcesses."""

    desk: JobDesk

    async def begin(self, task: Task, job: ProcessJob, note: Note) -> Note:
        """Makes the Job of a run."""
        if not isinstance(task.operation, DataProcess):
            raise TypeError("a program is the work of a DataProcess")
        files, content = process_objects(
            task.operation, job, task.run, task.scene.names, task.view.surroundings
        )
        await self.desk.order(task.operation, files, content)
        return note.with_details(**{_ORDERED: True})

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:
        """Where the Job stands, and how its program ended."""
        standing = await self.desk.standing(operation, note.run)
        if standing is None:
            is_leaving = operation.metadata.deletion_timestamp is not None
            if not note.details.get(_ORDERED) or is_leaving:
                return None
            return note.facts(JobState.FAILED, message="its Job was deleted")
        return note.facts(
            standing.state,
            ended_at=standing.ended_at,
            message=standing.why,
            node=standing.node,
            trouble=standing.trouble,
            exit_code=standing.exit_code,
        )

    async def cancel(self, operation: Operation, note: Note) -> None:
        """Ends the pod."""
        await self.desk.remove(operation, note.run)

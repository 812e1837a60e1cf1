"""Programs that are run on a dataset: each a Job. A run that has begun never begins again by itself."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api.dataprocess import DataProcess
from headrace.api.kinds import Operation
from headrace.operations.run_notes import Note
from headrace.operator.operations.job_driver import Task
from headrace.operator.operations.kubernetes_jobs import KubernetesJobs
from headrace.operator.rendering.process_objects import process_objects
from headrace.plan.job_specs import ProcessJob
from headrace.plan.operation_inputs import JobFacts, JobState

_ORDERED = "ordered"


@dataclass(frozen=True, slots=True)
class ProcessDriver:
    """The work of DataProcesses."""

    kubernetes_jobs: KubernetesJobs

    async def begin(self, task: Task, job: ProcessJob, note: Note) -> Note:
        """Makes the Job of a run."""
        if not isinstance(task.operation, DataProcess):
            raise TypeError("a program is the work of a DataProcess")
        files, content = process_objects(
            task.operation, job, task.run, task.desired.names, task.observation.render_context
        )
        await self.kubernetes_jobs.order(task.operation, files, content)
        return note.with_details(**{_ORDERED: True})

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:
        """The state of the Job, and the end of its program."""
        status = await self.kubernetes_jobs.status(operation, note.run)
        if status is None:
            is_leaving = operation.metadata.deletion_timestamp is not None
            if not note.details.get(_ORDERED) or is_leaving:
                return None
            return note.facts(JobState.FAILED, message="its Job was deleted")
        return note.facts(
            status.state,
            ended_at=status.ended_at,
            message=status.why,
            node=status.node,
            trouble=status.trouble,
            exit_code=status.exit_code,
        )

    async def cancel(self, operation: Operation, note: Note) -> bool:
        """Ends the pod."""
        await self.kubernetes_jobs.remove(operation, note.run)
        return False

    async def forget(self, operation: Operation, note: Note) -> None:
        """Does nothing: the operation owns its Jobs, which go with it."""

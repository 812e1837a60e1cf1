"""Backups: the newest list of a dataset's files, fetched from its master into a folder."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.api.kinds import Operation
from headrace.local.datasets.masters import Masters
from headrace.local.operations.job_driver import Task
from headrace.operations.backups import back_up
from headrace.operations.run_notes import Note, moment
from headrace.plan.job_specs import BackupJob
from headrace.plan.operation_inputs import JobFacts, JobState


@dataclass(frozen=True, slots=True)
class BackupDriver:
    """The work of DataBackups. One that was cut off is done again from the start."""

    masters: Masters

    async def begin(self, task: Task, job: BackupJob, note: Note) -> Note:  # noqa: ARG002
        """Does all of it."""
        async with await self.masters.client(job.cluster) as client:
            kept = await back_up(client, job.cluster, job.address, job.run_as)
        done = note.with_details(kept_bytes=kept.file_bytes, node=self.masters.node(job.cluster))
        return replace(done, ended=moment())

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:  # noqa: ARG002
        """The facts of the backup."""
        size = note.details.get("kept_bytes")
        if size is None:
            return None
        return note.facts(JobState.COMPLETE, done_bytes=size, total_bytes=size, node=note.details.get("node"))

    async def cancel(self, operation: Operation, note: Note) -> bool:  # noqa: ARG002
        """Its task was ended already."""
        return True

    async def forget(self, operation: Operation, note: Note) -> None:
        """The backup stays."""

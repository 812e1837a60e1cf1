"""Backups: the newest list of a dataset's files, fetched from its master by a Job. Done again, it replaces the last."""

from __future__ import annotations

import json
from dataclasses import dataclass

from headrace.api.databackup import DataBackup
from headrace.api.kinds import Operation
from headrace.errors import BusyError
from headrace.operations.run_notes import Note
from headrace.operator.operations.job_driver import Task
from headrace.operator.operations.job_status import JobStatus
from headrace.operator.operations.kubernetes_jobs import KubernetesJobs
from headrace.operator.rendering.backup_objects import backup_objects
from headrace.plan.job_specs import BackupJob
from headrace.plan.operation_inputs import JobFacts
from headrace.plan.roles import RoleKind


@dataclass(frozen=True, slots=True)
class BackupDriver:
    """The work of DataBackups."""

    kubernetes_jobs: KubernetesJobs

    async def begin(self, task: Task, job: BackupJob, note: Note) -> Note:
        """Makes the Job, on the node of the master where a folder of a node is asked for."""
        if not isinstance(task.operation, DataBackup):
            raise TypeError("a backup is the work of a DataBackup")
        nodes = [pod["spec"]["nodeName"] for pod in task.desired.pods(RoleKind.MASTER)]
        if not task.observation.render_context.master or not any(nodes):
            raise BusyError.of(f"dataset {job.cluster} has no master of its own that answers")
        content = backup_objects(
            task.operation, task.run, task.desired.names, task.observation.render_context, nodes[0]
        )
        await self.kubernetes_jobs.order(task.operation, (), content)
        return note

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:
        """The state of the Job, and at its end the facts of the backup."""
        status = await self.kubernetes_jobs.status(operation, note.run)
        return None if status is None else backup_facts(note, status)

    async def cancel(self, operation: Operation, note: Note) -> bool:
        """Ends the pod; what was kept before stays."""
        await self.kubernetes_jobs.remove(operation, note.run)
        return False

    async def forget(self, operation: Operation, note: Note) -> None:
        """Does nothing: the operation owns its Jobs, which go with it."""


def backup_facts(note: Note, status: JobStatus) -> JobFacts:
    """The facts."""
    kept = _kept_bytes(status.said)
    return note.facts(
        status.state,
        ended_at=status.ended_at,
        message=status.why,
        node=status.node,
        trouble=status.trouble,
        done_bytes=kept,
        total_bytes=kept,
    )


def _kept_bytes(said: str) -> int:
    try:
        kept = json.loads(said)["kept_bytes"]
    except (ValueError, KeyError, TypeError):
        return 0
    return kept if isinstance(kept, int) and 0 <= kept < 2**63 else 0

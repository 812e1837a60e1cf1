"""Backups: the newest list of a dataset's files, fetched from its master by a Job. Done again, it replaces the last."""

from __future__ import annotations

import json
from dataclasses import dataclass

from headrace.api.databackup import DataBackup
from headrace.api.kinds import Operation
from headrace.errors import BusyError
from headrace.operator.rendering.backups import backup_objects
from headrace.operator.work.desk import Note, Task
from headrace.operator.work.job_desk import JobDesk
from headrace.operator.work.job_standing import JobStanding
from headrace.plan.operation_scene import JobFacts
from headrace.plan.orders import BackupJob
from headrace.plan.roles import RoleKind


@dataclass(frozen=True, slots=True)
class BackupWork:
    """The work of DataBackups."""

    desk: JobDesk

    async def begin(self, task: Task, job: BackupJob, note: Note) -> Note:
        """Makes the Job, on the node of the master where a folder of a node is asked for."""
        if not isinstance(task.operation, DataBackup):
            raise TypeError("a backup is the work of a DataBackup")
        nodes = [pod["spec"]["nodeName"] for pod in task.scene.pods(RoleKind.MASTER)]
        if not task.view.surroundings.master or not any(nodes):
            raise BusyError.of(f"dataset {job.cluster} has no master of its own that answers")
        content = backup_objects(task.operation, task.run, task.scene.names, task.view.surroundings, nodes[0])
        await self.desk.order(task.operation, (), content)
        return note

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:
        """Where the Job stands, and at its end what was kept."""
        standing = await self.desk.standing(operation, note.run)
        return None if standing is None else backup_facts(note, standing)

    async def cancel(self, operation: Operation, note: Note) -> None:
        """Ends the pod; what was kept before stays."""
        await self.desk.remove(operation, note.run)


def backup_facts(note: Note, standing: JobStanding) -> JobFacts:
    """The facts."""
    kept = _kept_bytes(standing.said)
    return note.facts(
        standing.state,
        ended_at=standing.ended_at,
        message=standing.why,
        node=standing.node,
        trouble=standing.trouble,
        done_bytes=kept,
        total_bytes=kept,
    )


def _kept_bytes(said: str) -> int:
    try:
        return int(json.loads(said)["kept_bytes"])
    except (ValueError, KeyError, TypeError):
        return 0

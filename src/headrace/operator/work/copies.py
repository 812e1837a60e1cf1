"""Copies between datasets and storage: each a Job, followed by what its pod says, and leaves as its last word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from headrace.api.datamigrate import DataMigrate
from headrace.api.kinds import Operation
from headrace.api.writing import part_content
from headrace.errors import BusyError
from headrace.operator.mirror import Content
from headrace.operator.observing import surroundings_of
from headrace.operator.rendering.copies import CopyPlan, copy_objects
from headrace.operator.rendering.naming import COPY_PORT
from headrace.operator.rendering.surroundings import Surroundings
from headrace.operator.scene import Scene
from headrace.operator.work.desk import Note, Task
from headrace.operator.work.job_desk import JobDesk
from headrace.operator.work.job_standing import JobStanding
from headrace.operator.work.progress import Asking
from headrace.plan.operation_scene import JobFacts, JobState
from headrace.plan.orders import CopyJob
from headrace.roles.progress import CopyProgress, parse_progress

_HOME = "home"


@dataclass(frozen=True, slots=True)
class CopyWork:
    """The work of DataMigrates."""

    desk: JobDesk
    asking: Asking = field(default_factory=lambda: Asking(COPY_PORT))

    async def begin(self, task: Task, job: CopyJob, note: Note) -> Note:
        """Makes the Job of a run, near the ledger of the run before."""
        if not isinstance(task.operation, DataMigrate):
            raise TypeError("a copy is the work of a DataMigrate")
        nodes = _nodes(task)
        home = note.details.get(_HOME, "")
        home = home if home in nodes else _chosen(nodes, task.operation)
        plan = CopyPlan(task.operation, job, task.scene.names, _surroundings(task, job), nodes, home)
        files, content = copy_objects(plan, task.run, task.datasets, _tolerations(task))
        await self.desk.order(task.operation, files, content)
        return note.with_details(**{_HOME: home})

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:
        """Where the Job stands, and at its end what was copied."""
        standing = await self.desk.standing(operation, note.run)
        if standing is None:
            return None
        return copy_facts(note, standing, await self.asking.progress(standing.address))

    async def cancel(self, operation: Operation, note: Note) -> None:
        """Ends the pod, which takes away what it has begun at the target."""
        await self.desk.remove(operation, note.run)


def copy_facts(note: Note, standing: JobStanding, now: CopyProgress | None = None) -> JobFacts:
    """The facts; `now` is what a copy that runs says of itself.

    One that counted its files has its faults among them, and is judged by these.
    """
    told = parse_progress(standing.said)
    if standing.state not in {JobState.COMPLETE, JobState.FAILED} or told is None:
        return note.facts(
            standing.state,
            ended_at=standing.ended_at,
            message=standing.why,
            node=standing.node,
            trouble=standing.trouble,
            **_going(now),
        )
    could_begin = told.state == "done" or told.total_files > 0
    return note.facts(
        JobState.COMPLETE if could_begin and told.state != "cancelled" else JobState.FAILED,
        ended_at=told.ended_at,
        message=told.message,
        node=standing.node,
        done_bytes=told.done_bytes,
        total_bytes=told.total_bytes,
        done_files=told.done_files,
        total_files=told.total_files,
        faults=max(told.faults, len(told.errors)),
    )


def _going(now: CopyProgress | None) -> dict[str, Any]:
    if now is None or now.state != "running":
        return {}
    return {
        "done_bytes": now.done_bytes,
        "total_bytes": now.total_bytes,
        "done_files": now.done_files,
        "total_files": now.total_files,
        "bytes_per_second": now.bytes_per_second,
        "left_s": now.left_s,
    }


def _surroundings(task: Task, job: CopyJob) -> Surroundings:
    """Those of the dataset that is read."""
    settings = task.view.surroundings.settings
    if job.source.cluster is None:
        return task.view.surroundings
    namespace, _, name = job.source.cluster.partition("/")
    found = surroundings_of(Scene(task.scene.mirror, (namespace, name)), settings)
    if not found.master:
        raise BusyError.of(f"dataset {job.source.cluster} has no master that answers")
    return found


def _nodes(task: Task) -> tuple[str, ...]:
    """The nodes of the dataset that are ready: these are swept when it goes."""
    ready = {node.name for node in task.view.observed.nodes if node.is_ready}
    return tuple(sorted(ready & set(task.scene.places())))


def _chosen(nodes: tuple[str, ...], operation: Operation) -> str:
    """One of them, not the same for all operations."""
    return nodes[crc32((operation.metadata.uid or "").encode()) % len(nodes)] if nodes else ""


def _tolerations(task: Task) -> list[Content]:
    dataset = task.scene.dataset
    return [part_content(each) for each in dataset.spec.tolerations] if dataset else []

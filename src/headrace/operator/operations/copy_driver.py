"""Copies between datasets and storage: each a Job, followed by what its pod says, and leaves as its last word."""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from headrace.api.datamigrate import DataMigrate
from headrace.api.kinds import Operation
from headrace.api.writing import part_content
from headrace.errors import BusyError
from headrace.operations.copy_facts import facts_of_ended, facts_of_running
from headrace.operations.run_notes import Note
from headrace.operator.desired_state import DesiredState
from headrace.operator.mirror import Content
from headrace.operator.observer import render_context_of
from headrace.operator.operations.copy_progress import ProgressClient
from headrace.operator.operations.job_driver import Task
from headrace.operator.operations.job_status import JobStatus
from headrace.operator.operations.kubernetes_jobs import KubernetesJobs
from headrace.operator.rendering.copy_objects import CopyPlan, copy_objects
from headrace.operator.rendering.naming import COPY_PORT
from headrace.operator.rendering.render_context import RenderContext
from headrace.plan.job_specs import CopyJob
from headrace.plan.operation_inputs import JobFacts, JobState
from headrace.plan.tolerations import allowed_tolerations
from headrace.roles.processes.progress import CopyProgress, parse_progress

_HOME = "home"


@dataclass(frozen=True, slots=True)
class CopyDriver:
    """The work of DataMigrates."""

    kubernetes_jobs: KubernetesJobs
    asking: ProgressClient = field(default_factory=lambda: ProgressClient(COPY_PORT))

    async def begin(self, task: Task, job: CopyJob, note: Note) -> Note:
        """Makes the Job of a run, near the ledger of the run before."""
        if not isinstance(task.operation, DataMigrate):
            raise TypeError("a copy is the work of a DataMigrate")
        nodes = _nodes(task)
        home = note.details.get(_HOME, "")
        home = home if home in nodes else _chosen(nodes, task.operation)
        plan = CopyPlan(task.operation, job, task.desired.names, _render_context(task, job), nodes, home)
        files, content = copy_objects(plan, task.run, task.datasets, _tolerations(task))
        await self.kubernetes_jobs.order(task.operation, files, content)
        return note.with_details(**{_HOME: home})

    async def facts(self, operation: Operation, note: Note) -> JobFacts | None:
        """The state of the Job, and at its end the facts of the copy."""
        status = await self.kubernetes_jobs.status(operation, note.run)
        if status is None:
            return None
        return copy_facts(note, status, await self.asking.progress(status.address))

    async def cancel(self, operation: Operation, note: Note) -> bool:
        """Ends the pod, which takes away what it has begun at the target."""
        await self.kubernetes_jobs.remove(operation, note.run)
        return False

    async def forget(self, operation: Operation, note: Note) -> None:
        """Does nothing: the operation owns its Jobs, which go with it."""


def copy_facts(note: Note, status: JobStatus, now: CopyProgress | None = None) -> JobFacts:
    """The facts; `now` is the report of a copy that runs."""
    last = parse_progress(status.said)
    if status.state in {JobState.COMPLETE, JobState.FAILED} and last is not None:
        return facts_of_ended(note, last, status.node)
    return note.facts(
        status.state,
        ended_at=status.ended_at,
        message=status.why,
        node=status.node,
        trouble=status.trouble,
        **(facts_of_running(now) if now is not None and now.state == "running" else {}),
    )


def _render_context(task: Task, job: CopyJob) -> RenderContext:
    """Those of the dataset that is read."""
    settings = task.observation.render_context.settings
    if job.source.cluster is None:
        return task.observation.render_context
    namespace, _, name = job.source.cluster.partition("/")
    found = render_context_of(DesiredState(task.desired.mirror, (namespace, name)), settings)
    if not found.master:
        raise BusyError.of(f"dataset {job.source.cluster} has no master that answers")
    return found


def _nodes(task: Task) -> tuple[str, ...]:
    """The nodes of the dataset that are ready: these are swept when it goes."""
    ready = {node.name for node in task.observation.observed.nodes if node.is_ready}
    return tuple(sorted(ready & set(task.desired.places(task.observation.render_context.settings))))


def _chosen(nodes: tuple[str, ...], operation: Operation) -> str:
    """One of them, not the same for all operations."""
    return nodes[crc32((operation.metadata.uid or "").encode()) % len(nodes)] if nodes else ""


def _tolerations(task: Task) -> list[Content]:
    dataset = task.desired.dataset
    policy = task.observation.observed.policy
    allowed = allowed_tolerations(dataset.spec.tolerations, policy) if dataset else ()
    return [part_content(each) for each in allowed]

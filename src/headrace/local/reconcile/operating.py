"""Operations on a dataset, a step further each look: planned, ordered, followed, told of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from headrace.api.dataprocess import DataProcess
from headrace.api.dataset import Dataset
from headrace.api.ignored import IgnoredField
from headrace.api.kinds import Operation, Runtime
from headrace.local.reconcile.jobs import Jobs
from headrace.local.reconcile.relations import RUNTIMES
from headrace.local.reconcile.saying import say
from headrace.local.reconcile.scene import Scene, title_of
from headrace.local.reconcile.work.containers import ignored_here
from headrace.local.reconcile.work.desk import Task
from headrace.local.records import Record
from headrace.local.writing import Writer
from headrace.plan.observed import Observed
from headrace.plan.operation_scene import OperationScene
from headrace.plan.operations import OperationPlan, plan_operation
from headrace.plan.orders import Surroundings


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """An operation and what is to be done for it."""

    record: Record
    plan: OperationPlan

    def say(self, writer: Writer) -> None:
        """Writes what is to be said; deletes one that nobody needs any more."""
        say(writer, self.record, self.plan.status, self.plan.events, self.plan.finalizers)
        present = writer.get(self.record.reference)
        if self.plan.delete and present is not None and present.uid == self.record.uid:
            writer.delete(present.reference)


async def plan_operations(
    scene: Scene, observed: Observed, jobs: Jobs, now: datetime
) -> list[PlannedOperation]:
    """The plans of a dataset's operations."""
    if not scene.operations:
        return []
    surroundings = _surroundings(scene, observed)
    planned = []
    for record in scene.operations:
        operation = cast("Operation", record.thing())
        job = await jobs.facts(record.uid)
        predecessor = _predecessor(operation, scene)
        plan = plan_operation(
            OperationScene(operation, surroundings, predecessor, job, _ignored(operation)), now
        )
        planned.append(PlannedOperation(record, plan))
    return planned


async def take(planned: PlannedOperation, scene: Scene, jobs: Jobs) -> None:
    """Orders or cancels the work."""
    uid = planned.record.uid
    if planned.plan.cancel:
        await jobs.cancel(uid)
    elif planned.plan.start is not None:
        jobs.start(Task(planned.record, scene, planned.plan.run), planned.plan.start)
    elif not planned.plan.finalizers:
        await jobs.forget(uid)


def _ignored(operation: Operation) -> tuple[IgnoredField, ...]:
    """What this backend cannot follow, beside what no backend does."""
    return ignored_here(operation) if isinstance(operation, DataProcess) else ()


def _surroundings(scene: Scene, observed: Observed) -> Surroundings:
    datasets: dict[str, Dataset] = {}
    runtimes: dict[str, Runtime] = {}
    for record in scene.records:
        if record.reference.kind == "Dataset":
            datasets[title_of(record)] = cast("Dataset", record.thing())
        elif record.reference.kind in RUNTIMES:
            runtimes[title_of(record)] = cast("Runtime", record.thing())
    known: Mapping[str, Dataset] = datasets
    return Surroundings(known, runtimes, observed)


def _predecessor(operation: Operation, scene: Scene) -> Operation | None:
    after = operation.spec.run_after
    if after is None:
        return None
    record = scene.find(after.kind, after.name, after.namespace or operation.namespace or "default")
    return cast("Operation", record.thing()) if record else None

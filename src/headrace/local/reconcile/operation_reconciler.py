"""Operations on a dataset, a step further each pass: planned, ordered, followed, told of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from headrace.api.dataprocess import DataProcess
from headrace.api.dataset import Dataset
from headrace.api.ignored import IgnoredField, ignored_fields
from headrace.api.kinds import RUNTIMES, Operation, Runtime
from headrace.local.datasets.desired_state import DesiredState, title_of
from headrace.local.operations.containers import ignored_here
from headrace.local.operations.job_driver import Task
from headrace.local.reconcile.status_writer import write_status
from headrace.local.store.records import Record
from headrace.local.store.transaction import Transaction
from headrace.operations.work import Work
from headrace.plan.job_specs import OperationContext
from headrace.plan.observed import Observed
from headrace.plan.operation_inputs import JobFacts, OperationInputs
from headrace.plan.operations import OperationPlan, plan_operation
from headrace.plan.refusals import refusal_text


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """An operation and what is to be done for it."""

    record: Record
    plan: OperationPlan

    def write_status(self, transaction: Transaction) -> None:
        """Writes what is to be said; deletes one that nobody needs any more."""
        write_status(transaction, self.record, self.plan.status, self.plan.events, self.plan.finalizers)
        present = transaction.get(self.record.reference)
        if self.plan.delete and present is not None and present.uid == self.record.uid:
            transaction.delete(present.reference)


async def job_facts(desired: DesiredState, work: Work[Task]) -> dict[str, JobFacts | None]:
    """How the work of a dataset's operations stands, by their uids."""
    return {record.uid: await work.facts(cast("Operation", record.thing())) for record in desired.operations}


def plan_operations(
    desired: DesiredState,
    observed: Observed,
    jobs: Mapping[str, JobFacts | None],
    work: Work[Task],
    now: datetime,
) -> list[PlannedOperation]:
    """The plans of a dataset's operations."""
    if not desired.operations:
        return []
    context = _operation_context(desired, observed)
    planned = []
    for record in desired.operations:
        operation = cast("Operation", record.thing())
        first = _predecessor(operation, desired)
        fault = first.fault() if first else None
        inputs = OperationInputs(
            operation,
            context,
            cast("Operation | None", first.understood()) if first else None,
            jobs[record.uid],
            _ignored(operation),
            hindrance=work.hindrance(operation),
            predecessor_fault=refusal_text(fault) if fault else "",
        )
        plan = plan_operation(inputs, now)
        planned.append(PlannedOperation(record, plan))
    return planned


async def execute(planned: PlannedOperation, desired: DesiredState, work: Work[Task]) -> None:
    """Orders or cancels the work."""
    operation = cast("Operation", planned.record.thing())
    run = planned.plan.run
    if planned.plan.cancel:
        await work.cancel(operation)
    elif planned.plan.start is not None:
        work.start(operation, Task(planned.record, desired, run), run, planned.plan.start)
    elif not planned.plan.finalizers:
        await work.forget(operation)


def _ignored(operation: Operation) -> tuple[IgnoredField, ...]:
    """What this backend cannot follow, beside what no backend does."""
    everywhere = ignored_fields(operation)
    without_pods = [each for each in ignored_fields(operation, has_pods=False) if each not in everywhere]
    return (*without_pods, *(ignored_here(operation) if isinstance(operation, DataProcess) else ()))


def _operation_context(desired: DesiredState, observed: Observed) -> OperationContext:
    datasets: dict[str, Dataset] = {}
    runtimes: dict[str, Runtime] = {}
    for record in desired.records:
        if record.reference.kind == "Dataset" and (thing := record.understood()):
            datasets[title_of(record)] = cast("Dataset", thing)
        elif record.reference.kind in RUNTIMES and (thing := record.understood()):
            runtimes[title_of(record)] = cast("Runtime", thing)
    known: Mapping[str, Dataset] = datasets
    return OperationContext(known, runtimes, observed)


def _predecessor(operation: Operation, desired: DesiredState) -> Record | None:
    after = operation.spec.run_after
    if after is None:
        return None
    return desired.find(after.kind, after.name, after.namespace or operation.namespace or "default")

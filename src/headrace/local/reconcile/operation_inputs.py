"""The inputs of an operation's plan, out of the declarations that have to do with its dataset."""

from __future__ import annotations

from typing import cast

from headrace.api.dataprocess import DataProcess
from headrace.api.dataset import Dataset
from headrace.api.ignored import IgnoredField, ignored_fields
from headrace.api.kinds import RUNTIMES, Operation, Runtime
from headrace.local.datasets.desired_state import DesiredState, title_of
from headrace.local.operations.containers import ignored_here
from headrace.local.store.records import Record
from headrace.plan.job_specs import OperationContext
from headrace.plan.operation_inputs import JobFacts, OperationInputs
from headrace.plan.refusals import refusal_text


def operation_inputs(
    operation: Operation,
    desired: DesiredState,
    context: OperationContext,
    job: JobFacts | None,
    hindrance: str,
) -> OperationInputs:
    """All of it."""
    first = _predecessor(operation, desired)
    fault = first.fault() if first else None
    return OperationInputs(
        operation,
        context,
        cast("Operation | None", first.understood()) if first else None,
        job,
        _ignored(operation),
        hindrance,
        refusal_text(fault) if fault else "",
    )


def _ignored(operation: Operation) -> tuple[IgnoredField, ...]:
    """What this backend cannot follow, beside what no backend does."""
    everywhere = ignored_fields(operation)
    without_pods = [each for each in ignored_fields(operation, has_pods=False) if each not in everywhere]
    return (*without_pods, *(ignored_here(operation) if isinstance(operation, DataProcess) else ()))


def declared_in(desired: DesiredState) -> tuple[dict[str, Dataset], dict[str, Runtime]]:
    """The datasets and runtimes that operations may name, as far as they make sense."""
    datasets: dict[str, Dataset] = {}
    runtimes: dict[str, Runtime] = {}
    for record in desired.records:
        if record.reference.kind == "Dataset" and (thing := record.understood()):
            datasets[title_of(record)] = cast("Dataset", thing)
        elif record.reference.kind in RUNTIMES and (thing := record.understood()):
            runtimes[title_of(record)] = cast("Runtime", thing)
    return datasets, runtimes


def _predecessor(operation: Operation, desired: DesiredState) -> Record | None:
    after = operation.spec.run_after
    if after is None:
        return None
    return desired.find(after.kind, after.name, after.namespace or operation.namespace or "default")

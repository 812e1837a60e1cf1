"""The inputs of an operation's plan, out of the mirror."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from headrace.api.dataset import Dataset
from headrace.api.kinds import Operation, Runtime
from headrace.api.manifests import InvalidObjectsError, object_of
from headrace.operator.desired_state import DesiredState
from headrace.operator.mirror import Mirror
from headrace.plan.job_specs import OperationContext, dataset_keys
from headrace.plan.observed import Observed
from headrace.plan.operation_inputs import JobFacts, OperationInputs
from headrace.plan.refusals import refusal_text


def operation_inputs(
    operation: Operation, mirror: Mirror, observed: Observed, job: JobFacts | None, hindrance: str
) -> OperationInputs:
    """All of it. Raises `ConfigError` where a dataset that it names makes no sense."""
    is_leaving = operation.metadata.deletion_timestamp is not None
    # What goes needs nothing any more, and the datasets that it names may make no sense.
    declared = ({}, {}) if is_leaving else declared_for(operation, mirror)
    predecessor, fault = _predecessor(operation, mirror)
    context = OperationContext(*declared, observed)
    return OperationInputs(operation, context, predecessor, job, hindrance=hindrance, predecessor_fault=fault)


def declared_for(operation: Operation, mirror: Mirror) -> tuple[Mapping[str, Dataset], Mapping[str, Runtime]]:
    """The datasets that an operation names, and their runtimes."""
    datasets, runtimes = {}, {}
    for title in dataset_keys(operation):
        namespace, _, name = title.partition("/")
        other = DesiredState(mirror, (namespace, name))
        if other.dataset is not None:
            datasets[title] = other.dataset
        if other.runtime is not None:
            runtimes[title] = other.runtime
    return datasets, runtimes


def _predecessor(operation: Operation, mirror: Mirror) -> tuple[Operation | None, str]:
    """The operation that it runs after, or why that one makes no sense."""
    after = operation.spec.run_after
    if after is None:
        return None, ""
    content = mirror.get(after.kind, after.namespace or operation.namespace or "default", after.name)
    try:
        return cast("Operation", object_of(content, after.kind, lenient=True)) if content else None, ""
    except InvalidObjectsError as error:
        return None, refusal_text(error)

"""Operations on a dataset, a step further each pass: planned, ordered, followed, told of.

What is under way for an operation stands in an annotation of it, so that the next operator goes on with the same work.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from headrace.api.dataset import Dataset
from headrace.api.kinds import Operation, Runtime
from headrace.api.manifests import InvalidObjectsError, object_of
from headrace.errors import HeadraceError
from headrace.kube.client import KubeClient
from headrace.kube.faults import ConflictError
from headrace.operations.load_driver import LoadDriver, Masters
from headrace.operations.work import JobDriver, Work
from headrace.operator.desired_state import DesiredState
from headrace.operator.mirror import Mirror
from headrace.operator.observer import Observation
from headrace.operator.operations.backup_driver import BackupDriver
from headrace.operator.operations.copy_driver import CopyDriver
from headrace.operator.operations.job_driver import AnnotatedNotes, Task
from headrace.operator.operations.kubernetes_jobs import KubernetesJobs
from headrace.operator.operations.process_driver import ProcessDriver
from headrace.operator.status_writer import StatusWriter
from headrace.plan.job_specs import OperationContext, dataset_keys
from headrace.plan.operation_inputs import JobFacts, OperationInputs
from headrace.plan.operations import plan_operation
from headrace.plan.refusals import refusal_text

_log = logging.getLogger("headrace.operator")

_BEGUN_S = 1.0
_AFTER_FAULT_S = 5.0

Loads = Mapping[str, JobFacts | None]


def work_of(client: KubeClient, mirror: Mirror, masters: Masters) -> Work[Task]:
    """The work for all operations: how each kind of it is done."""
    kubernetes_jobs = KubernetesJobs(client, mirror)
    drivers: Mapping[str, JobDriver[Task, Any]] = {
        "load": LoadDriver(masters),
        "backup": BackupDriver(kubernetes_jobs),
        "copy": CopyDriver(kubernetes_jobs),
        "process": ProcessDriver(kubernetes_jobs),
    }
    return Work(drivers, AnnotatedNotes(client), _log)


@dataclass(slots=True)
class OperationReconciler:
    """The operations of all datasets. Used from one event loop."""

    client: KubeClient
    mirror: Mirror
    work: Work[Task]

    async def loads(self, desired: DesiredState) -> Loads:
        """How the loads of the dataset's operations stand, by the uids of these, as far as that can be told now."""
        loads: dict[str, JobFacts | None] = {}
        for each in desired.operations:
            if each.kind == "DataLoad":
                # Asked again, and said then, where that operation has its turn.
                with suppress(HeadraceError):
                    loads[each.metadata.uid or ""] = await self.work.facts(each)
        return loads

    async def reconcile(
        self,
        desired: DesiredState,
        observation: Observation,
        loads: Loads,
        status_writer: StatusWriter,
        now: datetime,
    ) -> float | None:
        """Brings the dataset's operations a step further; seconds until the next pass."""
        requeues = []
        for each in desired.operations:
            try:
                requeues.append(
                    await self._reconcile_one(each, desired, observation, status_writer, now, loads=loads)
                )
            except ConflictError:
                requeues.append(_BEGUN_S)
            except HeadraceError as error:
                # The others do not wait for this one.
                _log.warning("operation/%s: %s", each.name, error)
                requeues.append(_AFTER_FAULT_S)
        return min(requeues) if requeues else None

    async def close(self) -> None:
        """Orders nothing any more; what was ordered goes on."""
        await self.work.close()

    async def _reconcile_one(
        self,
        operation: Operation,
        desired: DesiredState,
        observation: Observation,
        status_writer: StatusWriter,
        now: datetime,
        *,
        loads: Loads,
    ) -> float:
        is_leaving = operation.metadata.deletion_timestamp is not None
        # What goes needs nothing any more, and the datasets that it names may make no sense.
        declared = ({}, {}) if is_leaving else _declared(operation, desired)
        render_context = OperationContext(*declared, observation.observed)
        uid = operation.metadata.uid or ""
        job = loads[uid] if uid in loads else await self.work.facts(operation)
        predecessor, fault = _predecessor(operation, self.mirror)
        planned = plan_operation(
            OperationInputs(
                operation,
                render_context,
                predecessor,
                job,
                hindrance=self.work.hindrance(operation),
                predecessor_fault=fault,
            ),
            now,
        )
        await status_writer.write_status(operation, planned.status, planned.events, planned.finalizers)
        if planned.delete:
            await self.client.delete(operation.kind, operation.namespace, operation.name)
        if planned.cancel:
            await self.work.cancel(operation)
        elif planned.start is not None:
            task = Task(operation, planned.run, desired, observation, render_context.datasets)
            self.work.start(operation, task, planned.run, planned.start)
        return _BEGUN_S if planned.start else planned.requeue_after_s


def _declared(
    operation: Operation, desired: DesiredState
) -> tuple[Mapping[str, Dataset], Mapping[str, Runtime]]:
    """The datasets that an operation names, and their runtimes."""
    datasets, runtimes = {}, {}
    for title in dataset_keys(operation):
        namespace, _, name = title.partition("/")
        other = DesiredState(desired.mirror, (namespace, name))
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

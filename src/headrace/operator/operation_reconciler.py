"""Operations on a dataset, a step further each pass: planned, ordered, followed, told of.

The state of an operation's work stands in an annotation of it, so that the next operator goes on with the same work.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, cast

from headrace.api.dataset import Dataset
from headrace.api.kinds import Operation, Runtime
from headrace.api.manifests import InvalidObjectsError, object_of
from headrace.errors import BusyError, HeadraceError, MissingFileError, OriginUnreachableError
from headrace.kube.client import KubeClient
from headrace.kube.faults import ConflictError
from headrace.operations.load_driver import LoadDriver, Masters
from headrace.operations.run_notes import WORK, Note, moment
from headrace.operator.desired_state import DesiredState
from headrace.operator.mirror import Mirror
from headrace.operator.observer import Observation
from headrace.operator.operations.backup_driver import BackupDriver
from headrace.operator.operations.copy_driver import CopyDriver
from headrace.operator.operations.job_driver import JobDriver, Task
from headrace.operator.operations.kubernetes_jobs import KubernetesJobs
from headrace.operator.operations.process_driver import ProcessDriver
from headrace.operator.status_writer import StatusWriter
from headrace.plan.job_specs import Job, OperationContext, dataset_keys
from headrace.plan.operation_inputs import JobFacts, JobState, OperationInputs
from headrace.plan.operations import OperationPlan, plan_operation
from headrace.plan.refusals import refusal_text

_log = logging.getLogger("headrace.operator")

NOTE_ANNOTATION = "headrace.io/work"
_BEGUN_S = 1.0
_AFTER_FAULT_S = 5.0

JobDrivers = Mapping[str, JobDriver[Any]]
Loads = Mapping[str, JobFacts | None]


def drivers_of(client: KubeClient, mirror: Mirror, masters: Masters) -> JobDrivers:
    """How each kind of work is done."""
    kubernetes_jobs = KubernetesJobs(client, mirror)
    return {
        "load": LoadDriver(masters),
        "backup": BackupDriver(kubernetes_jobs),
        "copy": CopyDriver(kubernetes_jobs),
        "process": ProcessDriver(kubernetes_jobs),
    }


@dataclass(slots=True)
class OperationReconciler:
    """The operations of all datasets. Used from one event loop."""

    client: KubeClient
    mirror: Mirror
    drivers: JobDrivers
    _starting: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _hindrances: dict[str, str] = field(default_factory=dict)
    """Why work could not begin when that was tried last, by the operation's uid."""

    async def loads(self, desired: DesiredState) -> Loads:
        """How the loads of the dataset's operations stand, by the uids of these, as far as that can be told now."""
        loads: dict[str, JobFacts | None] = {}
        for each in desired.operations:
            note = self._note(each)
            if note is not None and note.kind == "load":
                # Asked again, and said then, where that operation has its turn.
                with suppress(HeadraceError):
                    loads[each.metadata.uid or ""] = await self._facts(each, note)
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
        begun = list(self._starting.values())
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)

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
        note = self._note(operation)
        uid = operation.metadata.uid or ""
        job = loads[uid] if uid in loads else await self._facts(operation, note)
        predecessor, fault = _predecessor(operation, self.mirror)
        planned = plan_operation(
            OperationInputs(
                operation,
                render_context,
                predecessor,
                job,
                hindrance=self._hindrances.get(uid, ""),
                predecessor_fault=fault,
            ),
            now,
        )
        await status_writer.write_status(operation, planned.status, planned.events, planned.finalizers)
        if planned.delete:
            await self.client.delete(operation.kind, operation.namespace, operation.name)
        await self._take(
            Task(operation, planned.run, desired, observation, render_context.datasets), planned, note
        )
        return _BEGUN_S if planned.start else planned.requeue_after_s

    async def _take(self, task: Task, planned: OperationPlan, note: Note | None) -> None:
        uid = task.operation.metadata.uid or ""
        if planned.start is None:
            self._hindrances.pop(uid, None)
        if planned.cancel:
            if begun := self._starting.pop(uid, None):
                begun.cancel()
                # What it began to make must be there to be taken away.
                await asyncio.gather(begun, return_exceptions=True)
            if note is not None:
                await self.drivers[note.kind].cancel(task.operation, note)
        elif planned.start is not None and uid not in self._starting:
            started = asyncio.create_task(self._begin(task, planned.start, note))
            self._starting[uid] = started
            started.add_done_callback(lambda _: self._starting.pop(uid, None))

    async def _begin(self, task: Task, job: Job, before: Note | None) -> None:
        kind = WORK[type(job)]
        kept = before.details if before is not None and before.kind == kind == "copy" else {}
        again = before is not None and (before.kind, before.run) == (kind, task.run)
        note = Note(kind, task.run, before.started if before and again else moment(), details=kept)
        try:
            await self._write(task.operation, note)
            await self._write(task.operation, await self.drivers[kind].begin(task, job, note))
            self._hindrances.pop(task.operation.metadata.uid or "", None)
        except (BusyError, OriginUnreachableError) as error:
            # Ordered again by the next pass; what lasts too long is a failure by the planner's own deadline.
            _log.warning("operation/%s: cannot begin yet: %s", task.operation.name, error)
            self._hindrances[task.operation.metadata.uid or ""] = error.message
        except HeadraceError as error:
            await self._write(task.operation, note.failed(error.message))
        except Exception:
            _log.exception("operation/%s: cannot begin", task.operation.name)
            await self._write(
                task.operation, note.failed("Headrace met a fault of its own; its log says which")
            )

    async def _facts(self, operation: Operation, note: Note | None) -> JobFacts | None:
        if note is None:
            return None
        if note.fault:
            return note.facts(JobState.FAILED, message=note.fault)
        if (operation.metadata.uid or "") in self._starting:
            return note.facts(JobState.STARTING)
        return await self.drivers[note.kind].facts(operation, note)

    def _note(self, operation: Operation) -> Note | None:
        text = operation.metadata.annotations.get(NOTE_ANNOTATION)
        try:
            note = Note(**json.loads(text)) if text else None
            is_ours = note is not None and note.is_sound and _stays_at_home(note, operation)
            return note if is_ours and note is not None and note.kind in self.drivers else None
        except (ValueError, TypeError):
            # Somebody wrote into it: the work is ordered again, which does nothing twice.
            return None

    async def _write(self, operation: Operation, note: Note) -> None:
        text = json.dumps(asdict(note))
        body = {"metadata": {"annotations": {NOTE_ANNOTATION: text}, "uid": operation.metadata.uid}}
        try:
            await self.client.patch(operation.kind, operation.namespace or "default", operation.name, body)
        except MissingFileError:
            return


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


def _stays_at_home(note: Note, operation: Operation) -> bool:
    """True when the note leads to no cluster of another namespace: whoever may change the operation may write it, and
    would have us ask the masters of others, with their tokens.
    """
    cluster, loads = note.details.get("cluster", ""), note.details.get("loads", [])
    if not isinstance(cluster, str) or not isinstance(loads, list):
        return False
    own = operation.namespace or "default"
    return cluster.partition("/")[0] in ("", own) and all(isinstance(each, str) for each in loads)

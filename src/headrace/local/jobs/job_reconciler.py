"""Brings jobs a step further, one at a time: reads what is written down, observes, decides, notes that, and does it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from headrace.errors import HeadraceError
from headrace.local.context import BackendContext
from headrace.local.datasets.candidates import Candidates
from headrace.local.datasets.dataset_layout import Addresses
from headrace.local.datasets.masters import Masters
from headrace.local.jobs.executor import JobExecutor
from headrace.local.jobs.job_data import JobData
from headrace.local.jobs.job_records import JobRecord, Stage, role_prefix
from headrace.local.jobs.job_store import JobStore
from headrace.local.jobs.job_volumes import datasets_of
from headrace.local.jobs.meter_reader import MeterReader
from headrace.local.jobs.observer import JobObserver
from headrace.local.jobs.state_machine import Decision, next_step
from headrace.local.nodes.managed_folders import remove_tree
from headrace.local.processes.role_processes import TRAINING_PREFIX, RoleRecord
from headrace.work_queue import ReconcileResult, WorkQueue

_log = logging.getLogger("headrace.local")

_READ_EVERY_S = 5.0
# Workers tell their master what they fetched every two seconds; the second time it has arrived on a busy machine, too.
_SETTLED_S = 6.0
_JOB = "job"
_COUNTED = (Stage.STARTING, Stage.RUNNING, Stage.CLOSING)


class JobReconciler:
    """All jobs of one backend. Used from one event loop."""

    def __init__(
        self, context: BackendContext, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.job_store = JobStore(context.database, context.layout)
        masters = Masters(context.layout, Addresses(context.database), context.roles)
        self.data = JobData(context, Candidates(context, masters))
        self.executor = JobExecutor(context, self.job_store, self.data, self.enqueue)
        self._context = context
        self._clock = clock
        self._observer = JobObserver(context, self.data)
        self._meters = MeterReader(context, masters)
        self._queue = WorkQueue(self, _log)
        self._locks: dict[str, asyncio.Lock] = {}
        self._faults: dict[str, str] = {}
        self._read_at: dict[str, datetime] = {}

    def begin(self) -> None:
        """Takes over what another supervisor left. Blocks for as long as reading the jobs takes."""
        for folder in self.job_store.strays():
            remove_tree(folder)
        known = self.job_store.uids
        prefixes = tuple(role_prefix(uid) for uid in known)
        for consumer in self._context.consumers.all():
            if consumer.id.startswith(TRAINING_PREFIX) and not consumer.id.startswith(prefixes):
                self._context.consumers.end(consumer.id)
        for record in self._context.roles.all():
            is_ours = record.order.id.startswith(TRAINING_PREFIX) and not record.order.id.startswith(prefixes)
            if is_ours and record.state == "ended":
                self._context.roles.forget(record.order.id)
        self._queue.enqueue([(_JOB, uid) for uid in sorted(known)])

    def enqueue(self, uid: str) -> None:
        """Queues a job to be reconciled now."""
        self._queue.enqueue([(_JOB, uid)])

    def role_ended(self, record: RoleRecord) -> None:
        """The process of an instance has ended."""
        for job in self.job_store.all():
            if record.order.id.startswith(role_prefix(job.uid)):
                self.enqueue(job.uid)

    async def change(self, uid: str, change: Callable[[JobRecord], JobRecord]) -> JobRecord | None:
        """Changes a job between passes, and has it reconciled; `None` when it is gone. On the disk when it returns."""
        async with self._lock(uid):
            record = self.job_store.find(uid)
            if record is None:
                return None
            changed = change(record)
            if changed != record:
                self.job_store.write(changed)
        self.enqueue(uid)
        return changed

    async def end(self) -> None:
        """Looks no more; jobs go on."""
        await self._queue.close()

    async def close(self) -> None:
        """Called when there are no more passes."""
        await self.executor.close()

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:  # noqa: ARG002
        """One pass over the job of an identity."""
        async with self._lock(name):
            record = self.job_store.find(name)
            if record is None:
                self._drop(name)
                return ReconcileResult()
            return await self._reconcile(record)

    async def _reconcile(self, record: JobRecord) -> ReconcileResult:
        now = self._clock()
        others = [
            each for each in self.job_store.all() if each.uid != record.uid and not each.stage.has_ended
        ]
        observed = await self._observer.observe(record, self._faults.pop(record.uid, ""), others)
        if observed.cold and record.spec.wait_warm_percent:
            await self._freshen(record, now)
        decision = next_step(record, observed, now)
        metered = await self._metered(record, decision.record, now)
        decision = Decision(metered, decision.steps, decision.requeue_after_s)
        if decision.record != record:
            self.job_store.write(decision.record)
        try:
            await self.executor.execute(decision.record, decision.steps)
        except HeadraceError as error:
            _log.warning("%s/%s: %s", record.spec.kind.value, record.title, error.message)
            self._faults[record.uid] = error.message
            return ReconcileResult(0.0)
        return ReconcileResult(self._next_s(decision))

    async def _freshen(self, record: JobRecord, now: datetime) -> None:
        """Has said anew how much is cached of what a job waits for: of a dataset that is quiet, that is seldom said."""
        if self._is_due(record.uid, now):
            self._read_at[record.uid] = now
            self._context.enqueue(datasets_of(await self.data.volumes(record.spec)))

    def _next_s(self, decision: Decision) -> float | None:
        record = decision.record
        waits = record.stage is Stage.ENDED and not record.metering.is_final and not record.is_leaving
        if waits and record.spec.data:
            return min(
                decision.requeue_after_s if decision.requeue_after_s is not None else _SETTLED_S, _SETTLED_S
            )
        return decision.requeue_after_s

    async def _metered(self, before: JobRecord, after: JobRecord, now: datetime) -> JobRecord:
        """The record with what its data has cost so far, when it is time for another reading."""
        if after.metering.is_final or not after.spec.data or after.is_leaving:
            return after
        is_settled = (
            after.ended is not None
            and before.stage is Stage.ENDED
            and ((now - after.ended).total_seconds() >= _SETTLED_S)
        )
        has_just_ended = after.stage is Stage.RELEASING and before.stage is not Stage.RELEASING
        has_just_begun = after.stage is Stage.STARTING and not after.metering.meters
        is_due = after.stage in _COUNTED and self._is_due(after.uid, now)
        if not (is_settled or has_just_ended or has_just_begun or is_due):
            return after
        self._read_at[after.uid] = now
        keys = datasets_of(await self.data.volumes(after.spec))
        nodes = [each for each in self._context.nodes.all() if each.name in after.nodes]
        own = self.executor.consumers_of(after.uid)
        metering = await self._meters.read(after.metering, keys, nodes, after.created, own)
        return after.changed(metering=metering.closed() if is_settled else metering)

    def _is_due(self, uid: str, now: datetime) -> bool:
        last = self._read_at.get(uid)
        return last is None or (now - last).total_seconds() >= _READ_EVERY_S

    def _lock(self, uid: str) -> asyncio.Lock:
        return self._locks.setdefault(uid, asyncio.Lock())

    def _drop(self, uid: str) -> None:
        self._locks.pop(uid, None)
        self._faults.pop(uid, None)
        self._read_at.pop(uid, None)

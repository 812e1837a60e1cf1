"""One pass over a dataset: read what is declared, see what runs, plan, say, do. Between passes nothing is remembered
that could not be found out again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from headrace.api.kinds import OPERATIONS, Operation, Runtime
from headrace.local.datasets.dataset_layout import Addresses, DatasetLayout
from headrace.local.datasets.desired_state import DesiredState, affected_datasets, desired_state_of
from headrace.local.datasets.masters import Masters
from headrace.local.datasets.reference_index import ReferenceIndex
from headrace.local.datasets.rendering import RenderContext
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.operations.job_drivers import work_of
from headrace.local.reconcile import operation_reconciler
from headrace.local.reconcile.back_off import StartBackOff
from headrace.local.reconcile.executor import STARTING_S, Executor
from headrace.local.reconcile.observer import Observer, observe, users_now
from headrace.local.reconcile.open_file_scan import OpenFileScan
from headrace.local.reconcile.operation_reconciler import PlannedOperation, plan_operations
from headrace.local.reconcile.reservations import Reservations
from headrace.local.reconcile.role_states import RoleStates
from headrace.local.reconcile.status_writer import (
    set_owner_reference,
    write_refusals,
    write_status,
    write_volume,
)
from headrace.local.reconciler import Dataset as Key
from headrace.local.reconciler import ReconcileResult
from headrace.local.store.records import Reference
from headrace.local.store.secret_values import digest_key
from headrace.local.store.transaction import Transaction
from headrace.plan.observed import Observed, RoleFacts, RoleState
from headrace.plan.operation_inputs import JobFacts
from headrace.plan.outcome import Plan
from headrace.plan.plan import plan, plan_spare
from headrace.plan.refusals import operation_that_leaves
from headrace.plan.roles import RoleKind
from headrace.plan.runtimes import wanted_of
from headrace.plan.steps import teardown_steps

if TYPE_CHECKING:
    from headrace.local.context import BackendContext
    from headrace.plan.declared import Declared

_log = logging.getLogger("headrace.local")


class DatasetReconciler:
    """Brings datasets in line with their declarations. Used on one event loop, `affected_datasets` from any thread."""

    def __init__(self, context: BackendContext) -> None:
        self._context = context
        self._addresses = Addresses(context.database)
        self._index = ReferenceIndex(context.store)
        self._index.read_all()
        self._back_off = StartBackOff(context.database)
        self._role_states = RoleStates()
        self._open_files = OpenFileScan(context.layout.nodes)
        self._reservations = Reservations()
        self._digest_key = digest_key(context.database)
        self._jobs = work_of(context, Masters(context.layout, self._addresses, context.roles))
        self._own = threading.local()

    def affected_datasets(self, changed: Reference) -> Iterable[Key]:
        """Everybody whom a change matters to, but for the one who is just saying it."""
        found = affected_datasets(self._index, changed)
        return found - {getattr(self._own, "key", None)}

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        """One pass."""
        key = (namespace, name)
        layout = DatasetLayout(self._context.layout, key)
        desired, nodes = await asyncio.gather(
            asyncio.to_thread(desired_state_of, self._context.store, self._index, key),
            asyncio.to_thread(self._context.nodes.all),
        )
        now = datetime.now(UTC).replace(microsecond=0)
        self._note_ends(key, now)
        consumers = tuple(self._context.consumers.of(key))
        # Before the master is asked: what a load says to be cached is in the status that is written first.
        jobs = await operation_reconciler.job_facts(desired, self._jobs)
        observer = Observer(
            layout,
            self._addresses,
            self._back_off,
            self._role_states,
            self._digest_key,
            self._open_files,
            consumers,
        )
        observed = await observe(desired, observer, nodes, self._context.roles.all(), now)
        if self._may_end_mounts(desired, observed, now):
            # Nobody shall lose a mount that was not yet used when it was reconciled.
            users = await users_now(desired, observer, nodes, self._context.roles.all())
            observed = replace(observed, users=users)
        self._remember(layout, observed.roles)
        self._reservations.see(desired.title, self._context.roles.all())
        executor = self._executor(desired, layout, nodes)
        # Where something makes no sense, what runs goes on as it is, unless all is to go anyway.
        serves = None if desired.is_held else await self._serve(desired, observed, executor, now)
        requeues = [serves, await self._operate(desired, observed, jobs, now)]
        if desired.refused:
            await self._tell_refused(desired, observed, now)
        if any(facts.state is RoleState.STARTING for facts in observed.roles):
            requeues.append(STARTING_S)
        self._wake_others(desired)
        wanted = [requeue_s for requeue_s in requeues if requeue_s is not None]
        return ReconcileResult(min(wanted) if wanted else None)

    async def close(self) -> None:
        """Roles and loads go on."""
        await self._jobs.close()

    async def _serve(
        self, desired: DesiredState, observed: Observed, executor: Executor, now: datetime
    ) -> float | None:
        """Dataset and runtime a step further; seconds until the next."""
        if desired.declared is None:
            return await self._abandon(desired, observed, executor)
        # Nothing is awaited between seeing what the others have and taking one's own.
        planned = self._plan(desired, observed, now)
        runtime = desired.declared.runtime
        self._reservations.note(desired.title, planned, wanted_of(runtime).workers if runtime else 0)
        if not observed.roles and not planned.roles and not planned.holds:
            # Nothing of it is left but files, and those go before the last word is said.
            await executor.clear()
        await asyncio.to_thread(self._write_statuses, desired, planned, now)
        if desired.dataset is not None and desired.dataset.deleted and not planned.finalizers.dataset:
            # What it owned is asked to go with it, and that is not told to the one who did it.
            return 0.0
        wait_s = await executor.execute(planned, now)
        return min(planned.requeue_after_s, wait_s) if wait_s is not None else planned.requeue_after_s

    def _may_end_mounts(self, desired: DesiredState, observed: Observed, now: datetime) -> bool:
        has_mounts = any(facts.role == RoleKind.MOUNT for facts in observed.roles)
        return (
            desired.declared is not None
            and has_mounts
            and self._plan(desired, observed, now).steps.ends_mounts
        )

    def _plan(self, desired: DesiredState, observed: Observed, now: datetime) -> Plan:
        others = self._reservations.others(desired.title, self._context.roles.all(), desired.exclusive)
        return plan(cast("Declared", desired.declared), replace(observed, others=others), now)

    async def _operate(
        self, desired: DesiredState, observed: Observed, jobs: Mapping[str, JobFacts | None], now: datetime
    ) -> float | None:
        planned = plan_operations(desired, observed, jobs, self._jobs, now)
        if not planned:
            return None
        for each in planned:
            if not each.plan.finalizers and not each.plan.cancel and each.plan.start is None:
                # Once the last finalizer is off, whoever waits for its end expects nothing of it any more.
                await self._jobs.forget(cast("Operation", each.record.thing()))
        await asyncio.to_thread(self._write_operation_statuses, desired, planned)
        for each in planned:
            await operation_reconciler.execute(each, desired, self._jobs)
        # What was just ordered is soon under way.
        return min(0.5 if each.plan.start else each.plan.requeue_after_s for each in planned)

    async def _tell_refused(self, desired: DesiredState, observed: Observed, now: datetime) -> None:
        """Says which objects make no sense, and lets go of those that are to be deleted."""
        leaving = [each for each in desired.refused if each.deleted and each.reference.kind in OPERATIONS]
        for operation in (operation_that_leaves(record.document()) for record in leaving):
            await self._jobs.cancel(operation)
            await self._jobs.forget(operation)

        def write() -> None:
            with self._transaction(desired) as transaction:
                write_refusals(transaction, desired, is_over=not observed.roles, now=now)

        await asyncio.to_thread(write)

    async def _abandon(self, desired: DesiredState, observed: Observed, executor: Executor) -> float | None:
        """What runs for a dataset that is not declared any more ends."""
        self._reservations.forget(desired.title)
        if not observed.roles:
            await executor.clear()
            return None
        await executor.end(teardown_steps(observed).stop)
        _log.info("dataset/%s: is gone, what ran for it is ended", desired.title)
        return 0.0

    def _write_statuses(self, desired: DesiredState, planned: Plan, now: datetime) -> None:
        with self._transaction(desired) as transaction:
            write_volume(transaction, desired, planned.volume)
            if desired.dataset is not None and desired.runtime is not None:
                set_owner_reference(transaction, desired.runtime, desired.dataset)
            if desired.dataset is not None:
                write_status(
                    transaction,
                    desired.dataset,
                    planned.dataset_status,
                    planned.events,
                    planned.finalizers.dataset,
                )
            if desired.runtime is not None:
                write_status(
                    transaction,
                    desired.runtime,
                    planned.runtime_status,
                    planned.events,
                    planned.finalizers.runtime,
                )
            self._write_spare_statuses(transaction, desired, now)

    def _write_spare_statuses(self, transaction: Transaction, desired: DesiredState, now: datetime) -> None:
        """Runtimes of the same name that do not serve it."""
        serving = desired.declared.runtime if desired.declared else None
        for record in desired.spares if serving is not None else ():
            planned = plan_spare(cast("Runtime", record.thing()), cast("Runtime", serving), now)
            write_status(
                transaction, record, planned.runtime_status, planned.events, planned.finalizers.runtime
            )

    def _write_operation_statuses(self, desired: DesiredState, planned: Sequence[PlannedOperation]) -> None:
        with self._transaction(desired) as transaction:
            for each in planned:
                if desired.dataset is not None:
                    set_owner_reference(transaction, each.record, desired.dataset)
                each.write_status(transaction)

    @contextmanager
    def _transaction(self, desired: DesiredState) -> Iterator[Transaction]:
        """A transaction whose changes wake everybody else."""
        self._own.key = desired.key
        try:
            with self._context.store.changing() as transaction:
                yield transaction
        finally:
            self._own.key = None

    def _wake_others(self, desired: DesiredState) -> None:
        """A node that was given up may be what others wait for."""
        if self._reservations.gave_up(desired.title, self._context.roles.all()):
            lacking = sorted(self._reservations.lacking(desired.title))
            self._context.enqueue(
                [(namespace, name) for namespace, _, name in (each.partition("/") for each in lacking)]
            )

    def _remember(self, layout: DatasetLayout, roles: Iterable[RoleFacts]) -> None:
        """For who asks how it is."""
        seen, prefix = self._context.observed_roles, layout.order_id("")
        for order_id in [each for each in seen if each.startswith(prefix)]:
            del seen[order_id]
        seen |= {layout.order_id(facts.id): facts for facts in roles}

    def _note_ends(self, key: Key, now: datetime) -> None:
        for record in self._context.roles.all():
            is_own = (record.order.namespace, record.order.dataset) == key and record.order.kind != "job"
            if is_own and record.state == "ended":
                self._back_off.note_end(record, now)

    def _executor(
        self, desired: DesiredState, layout: DatasetLayout, nodes: Sequence[VirtualNode]
    ) -> Executor:
        render_context = RenderContext(layout, self._addresses, self._context.folders, desired)
        return Executor(
            self._context.database.instance, render_context, self._context.roles, nodes, self._back_off
        )

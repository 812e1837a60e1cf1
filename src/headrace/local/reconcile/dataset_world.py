"""One dataset of this machine in one pass: its records and processes, by the calls that a pass makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, cast

from headrace.api.dataset import Dataset
from headrace.api.kinds import OPERATIONS, RUNTIMES, Operation, Runtime
from headrace.local.datasets.dataset_layout import DatasetLayout
from headrace.local.datasets.desired_state import DesiredState
from headrace.local.datasets.rendering import RenderContext
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.operations.job_driver import Task
from headrace.local.processes.role_processes import RoleProcesses
from headrace.local.reconcile.executor import STARTING_S, Executor
from headrace.local.reconcile.observer import Observer, observe, users_now
from headrace.local.reconcile.operation_inputs import declared_in, operation_inputs
from headrace.local.reconcile.reservations import Reservations
from headrace.local.reconcile.status_writer import find, write_statement, write_volume
from headrace.local.reconciler import Dataset as Key
from headrace.local.store.records import Record
from headrace.local.store.transaction import Transaction
from headrace.plan.job_specs import OperationContext
from headrace.plan.observed import ConsumerFacts, Observed, OtherWorker
from headrace.plan.operation_inputs import JobFacts, OperationInputs
from headrace.plan.outcome import Plan
from headrace.plan.refusals import operation_that_leaves
from headrace.plan.runtimes import wanted_of
from headrace.plan.volume import Volume
from headrace.reconcile.world import Declarations, Refused, Statement, Subject

if TYPE_CHECKING:
    from headrace.local.context import BackendContext

Write = Callable[[Transaction], None]


@dataclass(frozen=True, slots=True)
class Means:
    """The parts that all passes share. A `transaction` wakes everybody but the dataset that writes."""

    context: BackendContext
    reservations: Reservations
    transaction: Callable[[Key], AbstractContextManager[Transaction]]


@dataclass
class DatasetWorld:
    """One dataset in one pass. Used from one event loop."""

    means: Means
    desired: DesiredState
    observer: Observer
    nodes: Sequence[VirtualNode]
    now: datetime
    observed: Observed = field(default_factory=Observed)

    outdated: tuple[type[Exception], ...] = ()
    starting_s: float = STARTING_S

    @cached_property
    def declarations(self) -> Declarations:
        """The declarations when the pass began."""
        desired = self.desired
        return Declarations(
            desired.title,
            desired.declared,
            tuple(cast("Runtime", each.thing()) for each in desired.spares),
            tuple(cast("Operation", each.thing()) for each in desired.operations),
            tuple(_refused(each, desired.dataset) for each in desired.refused),
            desired.is_leaving,
        )

    async def observe(self) -> Observed:
        """Everything that is known at this moment, but for other datasets' workers."""
        self._note_ends()
        self.observed = await observe(self.desired, self.observer, self.nodes, self._roles.all(), self.now)
        self._remember()
        self.means.reservations.see(self.desired.title, self._roles.all())
        return self.observed

    async def users(self) -> tuple[ConsumerFacts, ...]:
        """The users of the dataset, those among them that have come since the pass began."""
        consumers = tuple(self.means.context.consumers.of(self.desired.key))
        observer = replace(self.observer, consumers=consumers)
        return await users_now(self.desired, observer, self.nodes, self._roles.all())

    def others(self) -> Mapping[str, tuple[OtherWorker, ...]]:
        """Workers of other datasets, by node."""
        return self.means.reservations.others(self.desired.title, self._roles.all(), self.desired.exclusive)

    def reserve(self, plan: Plan | None) -> None:
        """Notes the nodes that were planned for its workers."""
        declared = self.desired.declared
        if plan is None or declared is None:
            self.means.reservations.forget(self.desired.title)
            return
        wanted = wanted_of(declared.runtime).workers if declared.runtime else 0
        self.means.reservations.note(self.desired.title, plan, wanted)

    async def clear(self) -> bool:
        """Takes away the files of a dataset that has no roles any more."""
        await self._executor.clear()
        return True

    async def follow_volume(self, volume: Volume | None, *, in_use: bool, closes: bool) -> None:  # noqa: ARG002
        """Makes the volume and its claim, or takes them away. Commands tell of a deletion."""
        await self._write(lambda transaction: write_volume(transaction, self.desired, volume))

    async def write(self, statements: Iterable[Statement]) -> None:
        """Says these together, so that nobody sees half of it."""
        said = list(statements)
        if not said:
            return

        def write(transaction: Transaction) -> None:
            for each in said:
                write_statement(transaction, each, self.desired.dataset)

        await self._write(write)
        dataset = self.desired.dataset
        if (
            dataset is not None
            and dataset.deleted
            and self.means.context.store.get(dataset.reference) is None
        ):
            # What it owned was asked to go with it, which is not told to the one who did it.
            self.means.context.enqueue([self.desired.key])

    async def take(self, plan: Plan) -> float | None:
        """Takes all steps that may be taken now."""
        return await self._executor.execute(plan, self.now)

    def inputs(self, operation: Operation, job: JobFacts | None, hindrance: str) -> OperationInputs:
        """The inputs of an operation's plan."""
        context = OperationContext(*self._known, self.observed)
        return operation_inputs(operation, self.desired, context, job, hindrance)

    def task(self, operation: Operation, run: str) -> Task:
        """A run of an operation, for its driver."""
        record = next(each for each in self.desired.operations if each.uid == operation.metadata.uid)
        return Task(record, self.desired, run)

    async def delete(self, operation: Operation) -> None:
        """Deletes an operation that nobody needs any more."""

        def delete(transaction: Transaction) -> None:
            if present := find(transaction, Subject.of(operation)):
                transaction.delete(present.reference)

        await self._write(delete)

    async def finish(self) -> None:
        """A node that was given up may be what others wait for."""
        reservations, title = self.means.reservations, self.desired.title
        if reservations.gave_up(title, self._roles.all()):
            lacking = (each.partition("/") for each in sorted(reservations.lacking(title)))
            self.means.context.enqueue([(namespace, name) for namespace, _, name in lacking])

    async def _write(self, write: Write) -> None:
        def written() -> None:
            with self.means.transaction(self.desired.key) as transaction:
                write(transaction)

        await asyncio.to_thread(written)

    @cached_property
    def _known(self) -> tuple[Mapping[str, Dataset], Mapping[str, Runtime]]:
        return declared_in(self.desired)

    @property
    def _roles(self) -> RoleProcesses:
        return self.means.context.roles

    @property
    def _layout(self) -> DatasetLayout:
        return self.observer.layout

    @cached_property
    def _executor(self) -> Executor:
        context = self.means.context
        rendering = RenderContext(self._layout, self.observer.addresses, context.folders, self.desired)
        return Executor(
            context.database.instance, rendering, context.roles, self.nodes, self.observer.back_off
        )

    def _remember(self) -> None:
        """For who asks how its roles are."""
        seen, prefix = self.means.context.observed_roles, self._layout.order_id("")
        for order_id in [each for each in seen if each.startswith(prefix)]:
            del seen[order_id]
        seen |= {self._layout.order_id(facts.id): facts for facts in self.observed.roles}

    def _note_ends(self) -> None:
        for record in self._roles.all():
            is_own = (record.order.namespace, record.order.dataset) == self.desired.key
            if is_own and record.order.kind != "job" and record.state == "ended":
                self.observer.back_off.note_end(record, self.now)


def _refused(record: Record, dataset: Record | None) -> Refused:
    fault, is_operation = record.fault(), record.reference.kind in OPERATIONS
    assert fault is not None
    told_of = dataset if record.reference.kind in RUNTIMES else record
    return Refused(
        _subject(record),
        fault,
        record.deleted is not None,
        _subject(told_of) if told_of else None,
        told_of.status if told_of else None,
        operation_that_leaves(record.document()) if is_operation else None,
    )


def _subject(record: Record) -> Subject:
    reference = record.reference
    return Subject(reference.kind, reference.namespace, reference.name, record.uid)

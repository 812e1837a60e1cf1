"""The datasets of this machine, reconciled: what is kept from pass to pass, and which passes a change asks for."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.local.datasets.dataset_layout import Addresses, DatasetLayout
from headrace.local.datasets.desired_state import affected_datasets, desired_state_of
from headrace.local.datasets.masters import Masters
from headrace.local.datasets.reference_index import ReferenceIndex
from headrace.local.operations.job_driver import Task
from headrace.local.operations.job_drivers import work_of
from headrace.local.reconcile.back_off import StartBackOff
from headrace.local.reconcile.dataset_world import DatasetWorld, Means
from headrace.local.reconcile.observer import Observer
from headrace.local.reconcile.open_file_scan import OpenFileScan
from headrace.local.reconcile.reservations import Reservations
from headrace.local.reconcile.role_states import RoleStates
from headrace.local.reconciler import Dataset as Key
from headrace.local.store.records import Reference
from headrace.local.store.secret_values import digest_key
from headrace.local.store.transaction import Transaction
from headrace.reconcile import dataset_reconciler

if TYPE_CHECKING:
    from headrace.local.context import BackendContext

_log = logging.getLogger("headrace.local")


class DatasetReconciler(dataset_reconciler.DatasetReconciler[Task]):
    """Reconciles the datasets of this machine. Used on one event loop, `affected_datasets` from any thread."""

    def __init__(self, context: BackendContext) -> None:
        self._backend = LocalBackend(context)
        masters = Masters(context.layout, self._backend.addresses, context.roles)
        super().__init__(self._backend, work_of(context, masters), _log)

    def affected_datasets(self, changed: Reference) -> Iterable[Key]:
        """Everybody whom a change matters to, but for the one who is just saying it."""
        return affected_datasets(self._backend.index, changed) - {self._backend.own_key}


class LocalBackend:
    """Reads what is declared, with what is known from pass to pass."""

    def __init__(self, context: BackendContext) -> None:
        self._context = context
        self.addresses = Addresses(context.database)
        self.index = ReferenceIndex(context.store)
        self.index.read_all()
        self._back_off = StartBackOff(context.database)
        self._role_states = RoleStates()
        self._open_files = OpenFileScan(context.layout.nodes)
        self._reservations = Reservations()
        self._digest_key = digest_key(context.database)
        self._own = threading.local()

    @property
    def own_key(self) -> Key | None:
        """The dataset in whose pass this thread is writing."""
        return getattr(self._own, "key", None)

    async def begin(self, key: Key, now: datetime) -> DatasetWorld:
        """The world of one pass."""
        context = self._context
        desired, nodes = await asyncio.gather(
            asyncio.to_thread(desired_state_of, context.store, self.index, key),
            asyncio.to_thread(context.nodes.all),
        )
        observer = Observer(
            DatasetLayout(context.layout, key),
            self.addresses,
            self._back_off,
            self._role_states,
            self._digest_key,
            self._open_files,
            tuple(context.consumers.of(key)),
        )
        means = Means(context, self._reservations, self._transaction)
        return DatasetWorld(means, desired, observer, nodes, now)

    @contextmanager
    def _transaction(self, key: Key) -> Iterator[Transaction]:
        """A transaction whose changes wake everybody but the dataset that writes them."""
        self._own.key = key
        try:
            with self._context.store.changing() as transaction:
                yield transaction
        finally:
            self._own.key = None

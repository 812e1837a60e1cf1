"""The work queue of the local backend: it also says whom a change of an object matters to."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headrace import work_queue
from headrace.local.reconciler import Dataset, MappingReconciler
from headrace.local.store.records import Reference


class WorkQueue(work_queue.WorkQueue):
    """Calls the reconciler. Runs in one event loop, and is used from there."""

    def __init__(self, reconciler: MappingReconciler) -> None:
        super().__init__(reconciler, logging.getLogger("headrace.local"))
        self._mapping = reconciler

    def affected_datasets(self, changed: Reference) -> Iterable[Dataset]:
        """The datasets that a change of an object may matter to. Any thread may ask."""
        return self._mapping.affected_datasets(changed)

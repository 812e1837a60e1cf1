"""The seam between what is declared and what is done: somebody who brings one dataset in line with its declaration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headrace.local.store.records import Reference
from headrace.work_queue import Dataset, Reconciler, ReconcileResult

__all__ = ["Dataset", "IdleReconciler", "MappingReconciler", "ReconcileResult"]


class MappingReconciler(Reconciler, Protocol):
    """Reconciles datasets, and knows whom a change matters to."""

    def affected_datasets(self, changed: Reference) -> Iterable[Dataset]:
        """The datasets that a change of an object may matter to."""


class IdleReconciler:
    """A reconciler that does nothing: declarations are kept, and nothing runs."""

    def affected_datasets(self, changed: Reference) -> Iterable[Dataset]:  # noqa: ARG002
        """None."""
        return ()

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:  # noqa: ARG002
        """Nothing."""
        return ReconcileResult()

    async def close(self) -> None:
        """Nothing is under way."""

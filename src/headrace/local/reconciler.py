"""The seam between what is declared and what is done: somebody who brings one dataset in line with its declaration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headrace.attention import Dataset, Looker, NextLook
from headrace.local.records import Reference

__all__ = ["Dataset", "Idle", "NextLook", "Reconciler"]


class Reconciler(Looker, Protocol):
    """Looks at datasets, and knows whom a change matters to."""

    def concerned(self, changed: Reference) -> Iterable[Dataset]:
        """The datasets that a change of an object may matter to."""


class Idle:
    """A reconciler that does nothing: declarations are kept, and nothing runs."""

    def concerned(self, changed: Reference) -> Iterable[Dataset]:  # noqa: ARG002
        """None."""
        return ()

    async def reconcile(self, namespace: str, name: str) -> NextLook:  # noqa: ARG002
        """Nothing."""
        return NextLook()

    async def close(self) -> None:
        """Nothing is under way."""

"""The seam between what is declared and what is done: somebody who brings one dataset in line with its declaration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from headrace.local.records import Reference

Dataset = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class NextLook:
    """When to look again though nothing has changed; `None`: not at all."""

    after_s: float | None = None


class Reconciler(Protocol):
    """Looks at one dataset, with its runtime and operations, and does what is needed now.

    It never waits for the world: what takes time it starts, and looks again. It is called for one dataset at a time
    once, for several datasets at the same time, again after any change, and as often as it wishes. An exception is
    logged, and the dataset looked at again, later each time.
    """

    def concerned(self, changed: Reference) -> Iterable[Dataset]:
        """The datasets that a change of an object may matter to."""

    async def reconcile(self, namespace: str, name: str) -> NextLook:
        """Brings the dataset a step further."""

    async def close(self) -> None:
        """Ends what it has under way; roles go on."""


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

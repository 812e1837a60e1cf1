"""The queue of datasets to reconcile: after changes at once, after failures later each time, never twice at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from headrace.openmetrics import Family, Samples

Dataset = tuple[str, str]
"""Namespace and name."""

_AT_A_TIME = 8
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0


def back_off_s(failures: int) -> float:
    """Seconds until the next pass after so many failures in a row."""
    return float(min(_FIRST_PAUSE_S * 2 ** min(failures - 1, 20), _LONGEST_PAUSE_S))


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The time to reconcile again though nothing has changed; `None`: not at all."""

    requeue_after_s: float | None = None
    is_complete: bool = True
    """False when a part of the pass failed, which the next one tries again."""


def families(prefix: str, word: str) -> tuple[Family, ...]:
    """The metrics of passes; `word` is what is reconciled."""
    return (
        Family(
            f"{prefix}_reconciles",
            "counter",
            "",
            f"Reconciliations of {word}s, by how they ended: done, incomplete (some of it is tried again) or failed",
        ),
        Family(
            f"{prefix}_reconcile_seconds",
            "counter",
            "seconds",
            "Seconds that reconciliations took, all together; several run at a time",
        ),
        Family(
            f"{prefix}_under_way", "gauge", "", f"Reconciliations of {word}s that run or wait for their turn"
        ),
        Family(
            f"{prefix}_failing",
            "gauge",
            "",
            f"{word.capitalize()}s whose last reconciliation failed; each is tried again, later each time",
        ),
    )


def samples_of(prefix: str, queue: WorkQueue | None) -> dict[str, Samples]:
    """The numbers for `families`; zeros before anything is reconciled."""
    passes = queue.passes if queue else PassCounts()
    ends = {"done": passes.done, "incomplete": passes.incomplete, "failed": passes.failed}
    return {
        f"{prefix}_reconciles": [({"result": end}, count) for end, count in ends.items()],
        f"{prefix}_reconcile_seconds": round(passes.seconds, 6),
        f"{prefix}_under_way": queue.under_way if queue else 0,
        f"{prefix}_failing": queue.failing if queue else 0,
    }


@dataclass(slots=True)
class PassCounts:
    """The passes so far, by how they ended."""

    done: int = 0
    incomplete: int = 0
    failed: int = 0
    seconds: float = 0.0


class Reconciler(Protocol):
    """Reconciles one dataset, with its runtime and operations: does what is needed now.

    It never waits for the world: what takes time it starts, and comes back. It is called for one dataset at a time
    once, for several datasets at the same time, again after any change, and as often as it wishes. An exception is
    logged, and the dataset reconciled again, later each time.
    """

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        """Brings the dataset a step further."""

    async def close(self) -> None:
        """Ends what it has under way; roles go on."""


class WorkQueue:
    """Calls the reconciler. Runs in one event loop, and is used from there."""

    def __init__(self, reconciler: Reconciler, log: logging.Logger, word: str = "dataset") -> None:
        self._reconciler = reconciler
        self._log = log
        self._word = word
        self._wanted: set[Dataset] = set()
        self._running: dict[Dataset, asyncio.Task[None]] = {}
        self._timers: dict[Dataset, asyncio.TimerHandle] = {}
        self._failures: dict[Dataset, int] = {}
        self._slots = asyncio.Semaphore(_AT_A_TIME)
        self._closed = False
        self.passes = PassCounts()

    def enqueue(self, datasets: Iterable[Dataset]) -> None:
        """Queues these to be reconciled: now, or again when the pass that is under way has ended."""
        for dataset in datasets:
            if self._closed:
                return
            if timer := self._timers.pop(dataset, None):
                timer.cancel()
            if dataset in self._running:
                self._wanted.add(dataset)
            else:
                self._running[dataset] = asyncio.create_task(self._reconcile(dataset))

    @property
    def under_way(self) -> int:
        """The number of passes that run or wait for their turn."""
        return len(self._running)

    @property
    def failing(self) -> int:
        """Of how many the last pass failed."""
        return len(self._failures)

    async def close(self) -> None:
        """Ends all passes."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._reconciler.close()

    async def _reconcile(self, dataset: Dataset) -> None:
        requeue_after_s: float | None
        try:
            async with self._slots:
                self._wanted.discard(dataset)
                requeue_after_s = await self._counted(dataset)
            self._failures.pop(dataset, None)
        except Exception:
            self.passes.failed += 1
            failures = self._failures[dataset] = self._failures.get(dataset, 0) + 1
            requeue_after_s = back_off_s(failures)
            self._log.exception(
                "%s/%s: reconciling failed, the next try is in %g s",
                self._word,
                "/".join(dataset),
                requeue_after_s,
            )
        self._ended(dataset, requeue_after_s)

    async def _counted(self, dataset: Dataset) -> float | None:
        began_s = time.monotonic()
        try:
            result = await self._reconciler.reconcile(*dataset)
        finally:
            self.passes.seconds += time.monotonic() - began_s
        self.passes.done += result.is_complete
        self.passes.incomplete += not result.is_complete
        return result.requeue_after_s

    def _ended(self, dataset: Dataset, requeue_after_s: float | None) -> None:
        del self._running[dataset]
        if dataset in self._wanted:
            self.enqueue([dataset])
        elif requeue_after_s is not None and not self._closed:
            loop = asyncio.get_running_loop()
            self._timers[dataset] = loop.call_later(requeue_after_s, self.enqueue, [dataset])

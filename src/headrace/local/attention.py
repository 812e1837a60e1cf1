"""Which dataset is looked at next: after changes at once, after failures later each time, never twice at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from headrace.local.reconciler import Dataset, Reconciler
from headrace.local.records import Reference

_log = logging.getLogger("headrace.local")

_AT_A_TIME = 8
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0


def pause_after(failures: int) -> float:
    """Seconds until the next look after so many failures in a row."""
    return float(min(_FIRST_PAUSE_S * 2 ** min(failures - 1, 20), _LONGEST_PAUSE_S))


class Attention:
    """Calls the reconciler. Runs in one event loop, and is used from there."""

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler
        self._wanted: set[Dataset] = set()
        self._running: dict[Dataset, asyncio.Task[None]] = {}
        self._timers: dict[Dataset, asyncio.TimerHandle] = {}
        self._failures: dict[Dataset, int] = {}
        self._slots = asyncio.Semaphore(_AT_A_TIME)
        self._closed = False

    def concerned(self, changed: Reference) -> Iterable[Dataset]:
        """The datasets that a change of an object may matter to. Any thread may ask."""
        return self._reconciler.concerned(changed)

    def look_at(self, datasets: Iterable[Dataset]) -> None:
        """Has these looked at: now, or again when the look that is under way has ended."""
        for dataset in datasets:
            if self._closed:
                return
            if timer := self._timers.pop(dataset, None):
                timer.cancel()
            if dataset in self._running:
                self._wanted.add(dataset)
            else:
                self._running[dataset] = asyncio.create_task(self._look(dataset))

    async def close(self) -> None:
        """Ends all looks."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._reconciler.close()

    async def _look(self, dataset: Dataset) -> None:
        after_s: float | None
        try:
            async with self._slots:
                self._wanted.discard(dataset)
                after_s = (await self._reconciler.reconcile(*dataset)).after_s
            self._failures.pop(dataset, None)
        except Exception:
            failures = self._failures[dataset] = self._failures.get(dataset, 0) + 1
            after_s = pause_after(failures)
            _log.exception("dataset/%s: the look failed, the next one is in %g s", "/".join(dataset), after_s)
        self._ended(dataset, after_s)

    def _ended(self, dataset: Dataset, after_s: float | None) -> None:
        del self._running[dataset]
        if dataset in self._wanted:
            self.look_at([dataset])
        elif after_s is not None and not self._closed:
            loop = asyncio.get_running_loop()
            self._timers[dataset] = loop.call_later(after_s, self.look_at, [dataset])

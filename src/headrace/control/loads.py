"""The loads of a cluster: a few run at a time, their progress is kept, and a restarted master goes on with them.

The engine does the work of a load with bytes: a `Runner` is handed in.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from headrace.control.messages import LoadAction, LoadOrder, LoadReport, LoadState
from headrace.errors import BusyError, HeadraceError, MissingFileError

_log = logging.getLogger("headrace.master")

MOST_RUNNING = 4
MOST_WAITING = 1000
KEPT_ENDED = 100
_POLL_EVERY_S = 0.25
_MOST_ERRORS = 100
_CANCEL_S = 10.0


class RunningLoad(Protocol):
    """A load under way in the engine."""

    def progress(self) -> Mapping[str, Any]:
        """`state`, the counters of `LoadReport`, and `cached_by_worker`: all that workers have, by their ids."""
        ...

    def cancel(self) -> None:
        """Stops it; what is in stays in."""
        ...


class Runner(Protocol):
    """Starts loads in the engine; called in a thread."""

    def start(self, report: LoadReport) -> RunningLoad:
        """The load under way."""
        ...


class Loads:
    """All loads by id. `changed` is awaited when something that must survive has changed.

    `cached` hears what workers have cached in all before a load says that it is done.
    """

    def __init__(
        self,
        runner: Runner,
        changed: Callable[[], Awaitable[None]],
        cached: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> None:
        self._runner = runner
        self._changed = changed
        self._cached = cached
        self._reports: dict[str, LoadReport] = {}
        self._running: dict[str, RunningLoad] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(MOST_RUNNING)

    def reports(self) -> list[LoadReport]:
        """Newest first."""
        return sorted(self._reports.values(), key=lambda report: report.created_at_s, reverse=True)

    def get(self, load_id: str) -> LoadReport:
        """One load. Raises `MissingFileError`."""
        report = self._reports.get(load_id)
        if report is None:
            raise MissingFileError.of(
                f"there is no load {load_id}", hint="see `headrace status --cluster URL`"
            )
        return report

    async def start(self, order: LoadOrder, *, at_once: bool = True) -> LoadReport:
        """Notes a load, and starts it as soon as there is a place; not `at_once`: after the next `resume`."""
        if sum(not report.state.ended for report in self._reports.values()) >= MOST_WAITING:
            raise BusyError.of(
                f"{MOST_WAITING} loads wait already", hint="wait for some of them, or cancel some"
            )
        report = LoadReport(id=secrets.token_hex(6), order=order, created_at_s=time.time())
        if order.action is LoadAction.UNPIN:
            # Done with the pins themselves: nothing is to be moved.
            report = report.model_copy(update={"state": LoadState.DONE, "ended_at_s": report.created_at_s})
        self._reports[report.id] = report
        try:
            await self._changed()
        except HeadraceError:
            del self._reports[report.id]
            raise
        if at_once and not report.state.ended:
            self._begin(report.id)
        return report

    async def cancel(self, load_id: str) -> LoadReport:
        """Stops a load; one that has ended stays as it is."""
        report = self.get(load_id)
        if report.state.ended:
            return report
        running, task = self._running.get(load_id), self._tasks.get(load_id)
        if running is not None and task is not None:
            await asyncio.to_thread(running.cancel)
            await asyncio.wait([task], timeout=_CANCEL_S)
        if not self.get(load_id).state.ended:
            # It waits for its place, or its engine is slow to end: its task sees this when it looks again.
            self._update(load_id, state=LoadState.CANCELLED, ended_at_s=time.time())
        await self._changed()
        return self.get(load_id)

    def dump(self) -> list[dict[str, Any]]:
        """The surviving state: every load, those that run as waiting."""
        return [report.model_dump(mode="json") for report in self._reports.values()]

    def restore(self, saved: Iterable[Any]) -> None:
        """Takes back what `dump` gave; loads that had not ended begin again and skip what is there."""
        for each in saved:
            try:
                report = LoadReport.model_validate(each)
            except ValidationError:
                _log.warning("master: a saved load cannot be understood and is dropped")
                continue
            if not report.state.ended:
                report = report.model_copy(update={"state": LoadState.WAITING})
            self._reports[report.id] = report

    def resume(self) -> None:
        """Begins the loads that have neither begun here nor ended: those that were restored, or came too early."""
        for report in sorted(self._reports.values(), key=lambda report: report.created_at_s):
            if not report.state.ended:
                self._begin(report.id)

    async def close(self) -> None:
        """Stops all; they stay noted as not ended."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _begin(self, load_id: str) -> None:
        if load_id in self._tasks:
            # Noted while the first snapshot was on its way: `resume` has begun it already.
            return
        task = asyncio.create_task(self._run(load_id))
        self._tasks[load_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(load_id, None))

    async def _run(self, load_id: str) -> None:
        async with self._places:
            if not self._is_wanted(load_id):
                return
            try:
                running = await asyncio.to_thread(self._runner.start, self.get(load_id))
            except HeadraceError as error:
                hint = f"; {error.hint}" if error.hint else ""
                self._end(load_id, LoadState.FAILED, error.message + hint)
            else:
                await self._started(load_id, running)
        self._forget_old()
        await self._saved()

    async def _started(self, load_id: str, running: RunningLoad) -> None:
        if self._is_wanted(load_id):
            self._update(load_id, state=LoadState.RUNNING)
            await self._follow(load_id, running)
        else:
            await asyncio.to_thread(running.cancel)

    def _is_wanted(self, load_id: str) -> bool:
        report = self._reports.get(load_id)
        return report is not None and not report.state.ended

    async def _follow(self, load_id: str, running: RunningLoad) -> None:
        self._running[load_id] = running
        try:
            while self._is_wanted(load_id):
                await asyncio.sleep(_POLL_EVERY_S)
                self._note(load_id, await asyncio.to_thread(running.progress))
        except HeadraceError as error:
            self._end(load_id, LoadState.FAILED, error.message)
        except ValueError:
            self._end(load_id, LoadState.FAILED, "the engine's report of the load cannot be understood")
        except asyncio.CancelledError:
            running.cancel()
            raise
        finally:
            del self._running[load_id]

    def _note(self, load_id: str, progress: Mapping[str, Any]) -> None:
        known = set(LoadReport.model_fields) - {
            "id",
            "order",
            "created_at_s",
            "ended_at_s",
            "snapshot_version",
        }
        fields = {name: value for name, value in progress.items() if name in known}
        fields["errors"] = [_fault(each) for each in fields.get("errors", ())[:_MOST_ERRORS]]
        self._cached(progress.get("cached_by_worker") or {})
        report = LoadReport.model_validate({**self.get(load_id).model_dump(), **fields})
        if report.state.ended:
            report = report.model_copy(update={"ended_at_s": time.time()})
            _log.info("load/%s: %s: %s", load_id, report.state.value, report.message)
        self._reports[load_id] = report

    def _end(self, load_id: str, state: LoadState, message: str) -> None:
        _log.warning("load/%s: %s: %s", load_id, state.value, message)
        self._update(load_id, state=state, message=message, ended_at_s=time.time())

    def _update(self, load_id: str, **fields: Any) -> None:
        self._reports[load_id] = self.get(load_id).model_copy(update=fields)

    def _forget_old(self) -> None:
        ended = [report for report in self.reports() if report.state.ended]
        for report in ended[KEPT_ENDED:]:
            del self._reports[report.id]

    async def _saved(self) -> None:
        try:
            await self._changed()
        except HeadraceError as error:
            _log.warning("master: %s", error)


def _fault(error: object) -> object:
    """The engine says a sentence, or path and sentence."""
    return {"message": error} if isinstance(error, str) else error

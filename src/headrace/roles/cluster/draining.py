"""A worker hands its blocks over: started, looked after, begun again when it did not get through."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from headrace.engine.cluster import NativeWorker
from headrace.engine.handles import Job
from headrace.errors import HeadraceError

_log = logging.getLogger("headrace.worker")

AGAIN_AFTER_S = 5.0
_LOOK_EVERY_S = 0.2


class Drain:
    """One order to drain, on a thread of its own, which may wait for disks: no method does.

    `tell_done` is called from there once everything is handed over.
    """

    def __init__(self, worker: NativeWorker, name: str, tell_done: Callable[[], None]) -> None:
        self._worker, self._name, self._tell_done = worker, name, tell_done
        self._job: Job | None = None
        self._again_s = 0.0
        self._cancelled = threading.Event()
        self.is_done = False
        self.done_bytes = 0
        self.total_bytes = 0
        # Nobody waits for it: the end of the process may come first.
        threading.Thread(target=self._run, name="drain", daemon=True).start()

    def cancel(self) -> None:
        """The worker stays."""
        self._cancelled.set()

    def _run(self) -> None:
        self._begin()
        while not self._cancelled.wait(_LOOK_EVERY_S):
            if self._is_through():
                self.is_done = True
                self._tell_done()
                return
        if self._job is not None:
            self._job.cancel()

    def _is_through(self) -> bool:
        """True when everything is handed over. A try that failed is followed by another, a little later."""
        if self._job is None:
            if time.monotonic() >= self._again_s:
                self._begin()
            return False
        report = self._job.progress()
        self.done_bytes, self.total_bytes = report.done_bytes, report.total_bytes
        if report.state == "running":
            return False
        left = self._worker.status().hanging_folders
        if report.complete and not left:
            if let_go := report.total_bytes - report.done_bytes:
                _log.info(
                    "worker/%s: the others have no room for %d bytes, which are let go", self._name, let_go
                )
            return True
        out_of_reach = f"the disk of cache folder {', '.join(left)} does not answer" if left else ""
        self._put_off(out_of_reach or report.message or report.state)
        return False

    def _begin(self) -> None:
        try:
            self._job = self._worker.drain()
        except HeadraceError as error:
            self._put_off(error.message)

    def _put_off(self, reason: str) -> None:
        _log.warning("worker/%s: not everything could be handed over: %s; trying again", self._name, reason)
        self._job, self._again_s = None, time.monotonic() + AGAIN_AFTER_S

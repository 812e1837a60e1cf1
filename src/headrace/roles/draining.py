"""A worker hands its blocks over: started, looked after, begun again when it did not get through."""

from __future__ import annotations

import logging
import time

from headrace.engine.cluster import NativeWorker
from headrace.engine.handles import Job
from headrace.errors import HeadraceError

_log = logging.getLogger("headrace.worker")

AGAIN_AFTER_S = 5.0


class Drain:
    """One order to drain. Every method may block, for a disk that hangs no longer than for the first sign of that."""

    def __init__(self, worker: NativeWorker, name: str) -> None:
        self._worker, self._name = worker, name
        self._job: Job | None = None
        self._again_s = 0.0
        self.done_bytes = 0
        self.total_bytes = 0
        self._begin()

    def poll(self) -> bool:
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
            return True
        out_of_reach = f"the disk of cache folder {', '.join(left)} does not answer" if left else ""
        self._put_off(out_of_reach or report.message or report.state)
        return False

    def cancel(self) -> None:
        """The worker stays."""
        if self._job is not None:
            self._job.cancel()

    def _begin(self) -> None:
        try:
            self._job = self._worker.drain()
        except HeadraceError as error:
            self._put_off(error.message)

    def _put_off(self, reason: str) -> None:
        _log.warning("worker/%s: not everything could be handed over: %s; trying again", self._name, reason)
        self._job, self._again_s = None, time.monotonic() + AGAIN_AFTER_S

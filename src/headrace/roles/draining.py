"""A worker hands its blocks over: started, looked after, begun again when it did not get through."""

from __future__ import annotations

import logging
import time

from headrace.engine.cluster import NativeWorker

_log = logging.getLogger("headrace.worker")

AGAIN_AFTER_S = 5.0


class Drain:
    """One order to drain. Every method may block."""

    def __init__(self, worker: NativeWorker, name: str) -> None:
        self._worker, self._name = worker, name
        self._job = worker.drain()
        self._again_s: float | None = None
        self.done_bytes = 0
        self.total_bytes = 0

    def poll(self) -> bool:
        """True when everything is handed over. A try that failed is followed by another, a little later."""
        if self._again_s is not None:
            if time.monotonic() >= self._again_s:
                self._job, self._again_s = self._worker.drain(), None
            return False
        report = self._job.progress()
        self.done_bytes, self.total_bytes = report.done_bytes, report.total_bytes
        if report.state == "running":
            return False
        if report.complete:
            return True
        reason = report.message or report.state
        _log.warning("worker/%s: not everything could be handed over: %s; trying again", self._name, reason)
        self._again_s = time.monotonic() + AGAIN_AFTER_S
        return False

    def cancel(self) -> None:
        """The worker stays."""
        self._job.cancel()

"""The check that a process that others wait for was stopped: then they wait in vain, and whoever stopped it may not
know."""

from __future__ import annotations

import contextlib
import time

from headrace.process.stat import stat_of

# Longer than a debugger or a snapshot of the machine stops a process for.
_LASTS_S = 3.0


class Standstill:
    """Watches one process; ask again and again."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._moved_at_s = time.monotonic()

    @property
    def is_now(self) -> bool:
        """True while the process is stopped."""
        with contextlib.suppress(PermissionError):
            stat = stat_of(self._pid)
            return stat is not None and stat.is_stopped
        return False

    @property
    def lasts(self) -> bool:
        """True once the process was seen to be stopped for some seconds, each time that it was asked."""
        now_s = time.monotonic()
        if not self.is_now:
            self._moved_at_s = now_s
        return now_s > self._moved_at_s + _LASTS_S

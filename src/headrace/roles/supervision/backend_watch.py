"""Restarts a local backend that nobody looks after, from the supervisor of one of its mounts.

The backend's own supervisor and its guard start each other anew, but not when both are killed at once; the supervisor
of a mount lives as long as somebody may read. It opens nothing of the backend's but the lock, and starts one program of
ours, by its name: that one looks whether it may.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from headrace.settings.environment import BACKEND_LOCK, ROLE_MARK

_PROGRAM = (sys.executable, "-P", "-m", "headrace.local.lifecycle.revival")
_LOOK_EVERY_S = 2.0
# Its guard starts the next one within a second or two, and a busy machine takes longer.
_PATIENCE_S = 5.0
_FIRST_PAUSE_S = 15.0
_LONGEST_PAUSE_S = 300.0


class BackendWatch:
    """Looks now and then; without a `lock` it does nothing."""

    def __init__(self, lock: Path | None, variables: Mapping[str, str]) -> None:
        self._lock = lock
        # What it starts is no process of the mount.
        own = (ROLE_MARK, BACKEND_LOCK)
        self._variables = {name: value for name, value in variables.items() if name not in own}
        self._process: subprocess.Popen[bytes] | None = None
        self._looked_s = float("-inf")
        self._alone_since_s: float | None = None
        self._not_before_s = float("-inf")
        self._pause_s = _FIRST_PAUSE_S

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> BackendWatch:
        """That of the backend which has started this process, if one has."""
        lock = variables.get(BACKEND_LOCK)
        return cls(Path(lock) if lock else None, variables)

    def look(self) -> None:
        """To be called every few seconds; waits for nothing."""
        now_s = time.monotonic()
        if self._lock is None or now_s < self._looked_s + _LOOK_EVERY_S or self.is_starting():
            return
        self._looked_s = now_s
        if not _is_free(self._lock):
            self._alone_since_s, self._pause_s = None, _FIRST_PAUSE_S
            return
        if self._alone_since_s is None:
            self._alone_since_s = now_s
        if now_s >= self._alone_since_s + _PATIENCE_S and now_s >= self._not_before_s:
            self._start(self._lock.parent, now_s)

    def is_starting(self) -> bool:
        """True if the process that it has started is at work."""
        return self._process is not None and self._process.poll() is None

    def _start(self, folder: Path, now_s: float) -> None:
        self._not_before_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        nothing = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                [*_PROGRAM, str(folder)],
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                env=self._variables,
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            # Memory or processes are short; the next try comes.
            self._process = None


def _is_free(lock: Path) -> bool:
    """True when there is a lock that nobody holds. One that is not there any more was taken down."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Given back at once: who starts meanwhile tries for a second.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True

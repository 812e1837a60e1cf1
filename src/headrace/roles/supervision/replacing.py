"""Replacing the program of a running mount by what is installed now, while programs go on reading."""

from __future__ import annotations

import os
import signal
import time

from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry
from headrace.errors import DeadlineError, EngineError, RefusedError, UnsupportedError
from headrace.process.stat import started_ticks
from headrace.roles.mountpoint.standstill import Standstill

_DEADLINE_S = 120.0
_POLL_S = 0.05


def replace_process(target: str, registry: Registry) -> Entry:
    """Returns the mount's new entry when the new process serves."""
    before = registry.get(target)
    if before.supervisor_pid is None or started_ticks(before.supervisor_pid) != before.supervisor_ticks:
        raise UnsupportedError.of(
            f"{before.mountpoint} has no supervisor that could replace its process",
            hint="unmount it and mount it again",
        )
    try:
        os.kill(before.supervisor_pid, signal.SIGUSR2)
    except PermissionError:
        raise RefusedError.of(
            f"{before.mountpoint} is another user's mount", hint="restart it as that user or as root"
        ) from None
    return _wait_for_other(before, registry)


def _wait_for_other(before: Entry, registry: Registry) -> Entry:
    deadline = time.monotonic() + _DEADLINE_S
    log = f"see its log, {before.log_file}" if before.log_file else "see its log"
    watched = {pid: Standstill(pid) for pid, _ in before.processes}
    while time.monotonic() < deadline:
        entry = next((one for one in registry.entries() if one.mountpoint == before.mountpoint), None)
        if entry is None:
            raise EngineError.of(f"{before.mountpoint} ended instead of being restarted", hint=log)
        if entry.pid != before.pid:
            return entry
        if still := [pid for pid, standstill in watched.items() if standstill.lasts]:
            raise _stands_still(before.mountpoint, still[0])
        time.sleep(_POLL_S)
    raise DeadlineError.of(f"{before.mountpoint} still runs in process {before.pid}", hint=log)


def _stands_still(mountpoint: str, pid: int) -> DeadlineError:
    return DeadlineError.of(
        f"{mountpoint} is not restarted: its process {pid} stands still: it was stopped",
        hint=f"`kill -CONT {pid}` lets the restart go on, `kill -KILL {pid}` has another process start at once",
    )

"""The cause of a process's end: the process itself, or somebody who killed it."""

from __future__ import annotations

import signal
from pathlib import Path

_VMSTAT = Path("/proc/vmstat")
_FROM_OTHERS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""No process of ours sends these to itself. SIGSEGV, SIGABRT and their like are what a fault of its own looks like."""


def was_killed(code: int, oom_kills_before: int) -> bool:
    """True when somebody else ended a process with this code, as `subprocess` has it.

    A process that the kernel kills for want of memory needed too much, and its successor will: that is its own fault.
    The kernel counts such kills of the whole machine, so one beside ours is taken for ours.
    """
    if -code not in _FROM_OTHERS:
        return False
    return -code != signal.SIGKILL or oom_kills() == oom_kills_before


def oom_kills() -> int:
    """The number of processes that the kernel of this machine has killed for want of memory; 0 where it does not
    say."""
    try:
        lines = _VMSTAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)

"""Mounts whose first process has died and that go on: their mount process takes its place (see
`roles.supervision.orphaned`)."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.local.processes.process_tags import TaggedProcess
from headrace.process.stat import strings_of

# Once it has taken the place, it has a mount process of its own again. The first mount process is a copy of the called
# one (`roles.launching.process_pair`).
_PROGRAMS = ("headrace.roles.supervision.supervisor", "headrace.roles.processes.mount", "headrace.cli.main")


def successor_of(processes: Iterable[TaggedProcess]) -> TaggedProcess | None:
    """The process of a role that has taken the place of the one that was started, or is about to."""
    programs = {_program_of(process): process for process in processes}
    return next((programs[name] for name in _PROGRAMS if name in programs), None)


def _program_of(process: TaggedProcess) -> str | None:
    try:
        words = strings_of(process.pid, "cmdline")
    except OSError:
        return None
    return next((name for name in _PROGRAMS if name.encode() in words), None)

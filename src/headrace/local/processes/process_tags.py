"""Processes that the local backend started, found again by a tag in their environment.

The tag goes on to everything that they start, and outlives whoever wrote it down. It holds no secret.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.process.stat import process_tree, started_ticks, strings_of
from headrace.settings.environment import ROLE_MARK

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class TaggedProcess:
    """A process of a backend that lives."""

    pid: int
    started_ticks: int
    role: str
    is_first: bool
    """True for the one that was started as the role; it leads a session."""


def tag_of(instance: str, role: str) -> str:
    """The tag in the environment of a role's processes."""
    return f"{instance}:{role}"


def tagged_processes(instance: str) -> list[TaggedProcess]:
    """All processes of a backend, this one never among them."""
    found = [
        _marked(int(folder.name), instance)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and int(folder.name) != os.getpid()
    ]
    return [process for process in found if process is not None]


def family(pid: int, ticks: int, role: str) -> list[TaggedProcess]:
    """A process, if it is still the same, and what it has started that lives below it, with a tag or without."""
    if started_ticks(pid) != ticks:
        return []
    return [
        TaggedProcess(each, started_ticks(each) or 0, role, is_first=each == pid)
        for each in process_tree(pid)
    ]


def end(processes: Iterable[TaggedProcess], signal_number: int) -> None:
    """Sends a signal to those that are still the same processes."""
    for process in processes:
        if started_ticks(process.pid) == process.started_ticks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal_number)


def end_all(instance: str, roles: Iterable[str] | None = None, *, grace_s: float) -> None:
    """Ends the processes of these roles, or all: SIGTERM, and SIGKILL after the grace, until none is left."""
    wanted = None if roles is None else set(roles)
    deadline = time.monotonic() + grace_s
    end(_wanted(instance, wanted), signal.SIGTERM)
    while alive := _wanted(instance, wanted):
        if time.monotonic() >= deadline:
            end(alive, signal.SIGKILL)
        time.sleep(_POLL_S)


def _wanted(instance: str, roles: set[str] | None) -> list[TaggedProcess]:
    return [each for each in tagged_processes(instance) if roles is None or each.role in roles]


def _marked(pid: int, instance: str) -> TaggedProcess | None:
    start = f"{ROLE_MARK}={instance}:".encode()
    try:
        tag = next((each for each in strings_of(pid, "environ") if each.startswith(start)), None)
        ticks = started_ticks(pid)
        if tag is None or ticks is None:
            return None
        return TaggedProcess(pid, ticks, tag[len(start) :].decode(), os.getsid(pid) == pid)
    except OSError:
        # It has ended meanwhile, or is another user's.
        return None

"""The kernel's facts about a process in `/proc/PID`: its state, its words and variables, and who descends from it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Literal, NamedTuple

_EXEC_WITHIN_S = 1.0
_LOOK_AGAIN_S = 0.0005
_START_OF_CODE = 26 - 3
"""Which field of `/proc/PID/stat` (proc_pid_stat(5)), counted from the one after the program's name."""
_LOOKS_AFTER_EXEC = 3
"""At a text that is empty though its program has begun: it is so, or it was read before and between two programs."""


class ProcessStat(NamedTuple):
    """One process as it was at the moment."""

    state: str
    """A letter: `R` runs, `T` is stopped, `Z` and `X` have ended."""
    parent: int
    processor_ticks: int
    """What it has used of the processors so far, in user and kernel mode."""
    started_ticks: int
    """When it started, in clock ticks since the machine did; tells it from a later one of the same number."""

    @property
    def has_ended(self) -> bool:
        """True once it only waits for its parent to ask how it ended."""
        return self.state in ("Z", "X")

    @property
    def is_stopped(self) -> bool:
        """By SIGSTOP, or a terminal; not by a debugger, which lets it go on."""
        return self.state == "T"


def stat_of(pid: int) -> ProcessStat | None:
    """The facts about process `pid`; `None` when there is none. Raises `PermissionError` if it is hidden."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses and may hold anything, so count from its end.
    state, *fields = text.rpartition(b")")[2].decode("ascii").split()
    return ProcessStat(state, int(fields[0]), int(fields[10]) + int(fields[11]), int(fields[18]))


def started_ticks(pid: int) -> int | None:
    """The start of process `pid`, in clock ticks since the machine did; `None` when there is no such process."""
    with contextlib.suppress(PermissionError):
        if (stat := stat_of(pid)) and not stat.has_ended:
            return stat.started_ticks
    return None


def strings_of(pid: int, kind: Literal["cmdline", "environ"]) -> list[bytes]:
    """The words a process was called with, or its variables; none of a kernel thread and of one that has ended.

    A process that becomes another program has none for a moment; that moment is waited for. Raises `OSError` when there
    is no such process, or it is hidden.
    """
    deadline, looks = time.monotonic() + _EXEC_WITHIN_S, 0
    while not (text := Path(f"/proc/{pid}/{kind}").read_bytes()):
        looks += not _is_in_exec(pid)
        if looks == _LOOKS_AFTER_EXEC or time.monotonic() > deadline or not _has_memory(pid):
            break
        time.sleep(_LOOK_AGAIN_S)
    return text.split(b"\0")


def _is_in_exec(pid: int) -> bool:
    """True also of what has no memory. The place of a program's code is written down last (fs/binfmt_elf.c)."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[_START_OF_CODE]) == 0


def _has_memory(pid: int) -> bool:
    """False of a kernel thread, and of a process that has ended."""
    return not Path(f"/proc/{pid}/statm").read_bytes().startswith(b"0 ")


def process_tree(root: int) -> list[int]:
    """The numbers of a process and of all that descend from it, the root first."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(PermissionError):
                if stat := stat_of(int(folder.name)):
                    children.setdefault(stat.parent, []).append(int(folder.name))
    tree, pending = [], [root]
    while pending:
        pid = pending.pop()
        tree.append(pid)
        pending.extend(children.get(pid, ()))
    return tree

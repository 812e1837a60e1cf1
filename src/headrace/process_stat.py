"""What the kernel says of a process in `/proc/PID/stat`, and which processes descend from one."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessStat:
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
    """What is known of process `pid`; `None` when there is none. Raises `PermissionError` if it is hidden."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses and may hold anything, so count from its end.
    state, *fields = text.rpartition(b")")[2].decode("ascii").split()
    return ProcessStat(state, int(fields[0]), int(fields[10]) + int(fields[11]), int(fields[18]))


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

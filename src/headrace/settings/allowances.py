"""A process's share of this machine when nobody set a limit: a part of what it is allowed."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

MIB = 1 << 20
LEAST_MEMORY_BYTES = 64 * MIB
"""With less, an engine does not work."""
_USUAL_MEMORY_BYTES = 512 * MIB
_MOST_MEMORY_BYTES = 1024 * MIB
# The rest of a group's memory is for the program itself, for levels in memory, and for pages that the kernel reads.
_SHARE_OF_GROUP = 4
_SHARE_OF_MACHINE = 8
_LEAST_DESCRIPTORS, _MOST_DESCRIPTORS = 64, 65_536
# Version 1 says "no limit" by the largest multiple of a page.
_WITHOUT_LIMIT = 1 << 60


def usual_memory_bytes(group_bytes: int | None, machine_bytes: int) -> int:
    """The default of `--memory`: a quarter of what the control group allows, at most 1 GiB; without a group's limit
    512 MiB. Never more than an eighth of the machine's memory, and never less than 64 MiB.
    """
    wanted = (
        _USUAL_MEMORY_BYTES
        if group_bytes is None
        else min(group_bytes // _SHARE_OF_GROUP, _MOST_MEMORY_BYTES)
    )
    return max(min(wanted, machine_bytes // _SHARE_OF_MACHINE), LEAST_MEMORY_BYTES)


def usual_descriptors(allowed: int) -> int:
    """The default of `descriptors`: three quarters of what the process may open. The rest is for connections."""
    if allowed == resource.RLIM_INFINITY:
        return _MOST_DESCRIPTORS
    return max(min(allowed * 3 // 4, _MOST_DESCRIPTORS), _LEAST_DESCRIPTORS)


def memory_bytes_here() -> int:
    """`usual_memory_bytes` of this process."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return usual_memory_bytes(group_memory_bytes(), machine)


def usual_listing_bytes(group_bytes: int | None, machine_bytes: int) -> int:
    """The default of `list_memory`: three quarters of what the control group allows, or of the machine's memory."""
    return min(group_bytes or machine_bytes, machine_bytes) * 3 // 4


def listing_bytes_here() -> int:
    """`usual_listing_bytes` of this process."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return usual_listing_bytes(group_memory_bytes(), machine)


def descriptors_here() -> int:
    """`usual_descriptors` of this process, which takes its hard limit."""
    return usual_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def group_memory_bytes(root: Path = Path("/")) -> int | None:
    """The memory that the control groups of this process allow together, of either version; `None` without a limit."""
    limits = [limit for file in _limit_files(root) if (limit := _limit(file)) is not None]
    return min(limits, default=None)


def _limit_files(root: Path) -> Iterator[Path]:
    """One for each group that the process is in, from its own up to the outermost that is seen here."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not controllers:
            place = "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            place = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the path is often that of another view: its own group is at the root then.
        group = PurePosixPath(path.lstrip("/") or ".")
        yield from (root / place[0] / each / place[1] for each in (group, *group.parents))


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() and int(text) < _WITHOUT_LIMIT else None

"""Names that tell which process made something, so that whoever comes later can tell what was left behind.

For what does not outlive its process, such as the networks of tests.
"""

from __future__ import annotations

import itertools
import os
import re

from headrace.process.stat import stat_of

OWNED_NAME = re.compile(r"headrace-(?P<pid>\d+)-(?P<start>\d+)-(?P<number>\d+)(?:-(?P<label>[a-z0-9-]+))?")

numbers = itertools.count()
"""Tells apart what one process makes."""


def owned_name(number: int, label: str = "") -> str:
    """A name that tells who made it; the same number and label give the same name."""
    stem = f"headrace-{os.getpid()}-{start_time(os.getpid())}-{number}"
    return f"{stem}-{label}" if label else stem


def is_stale(name: str) -> bool:
    """True if a name is one of ours and its maker is gone."""
    match = OWNED_NAME.fullmatch(name)
    return match is not None and start_time(int(match["pid"])) != int(match["start"])


def start_time(pid: int) -> int:
    """A process's start in clock ticks since boot, 0 when it is gone; tells a reused pid apart."""
    stat = stat_of(pid)
    return stat.started_ticks if stat else 0

"""The default places of caches in memory on this machine: the planner names a folder of root's."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.plan.cache_folders import MEMORY_PLACE

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a folder of our own in it, which is checked
_RUN = Path("/run")


def on_this_machine(folder: str) -> str:
    """A cache folder as this user can have it. One that a person named stays as it is."""
    path = Path(folder)
    if not path.is_relative_to(MEMORY_PLACE) or (os.geteuid() == 0 and _RUN.is_mount()):
        return folder
    return str(Path(_SHARED_MEMORY, f"headrace-{os.geteuid()}", path.relative_to(MEMORY_PLACE)))

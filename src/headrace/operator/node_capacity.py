"""The room on nodes: only a process there can tell, so it is known of those where workers run. Pure.

A worker takes less than its quotas where its disks are smaller (`fit_cache`), and reports what it took.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.plan.observed import Room
from headrace.plan.roles import CacheFolder


def rooms_of(status: Mapping[str, Any] | None, folders: Iterable[CacheFolder]) -> dict[str, dict[str, Room]]:
    """By node and folder the room of levels that are larger than their disks. Caches that fit are not named."""
    wanted: dict[str, int] = {}
    places: dict[str, list[str]] = {}
    for folder in folders:
        wanted[folder.medium] = wanted.get(folder.medium, 0) + folder.quota_bytes
        places.setdefault(folder.medium, []).append(folder.folder)
    found: dict[str, dict[str, Room]] = {}
    for row in (status or {}).get("workers", ()):
        for level in row["levels"]:
            medium, taken = level["medium"], level["quota_bytes"]
            # A worker that has just begun reports nothing yet.
            if 0 < taken < wanted.get(medium, 0):
                room = Room(f"{row['node']}:{medium}", taken)
                found.setdefault(row["node"], {}).update(dict.fromkeys(places[medium], room))
    return found

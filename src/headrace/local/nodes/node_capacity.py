"""The room of a node, as facts for the planner."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.api.kinds import Runtime
from headrace.local.nodes.memory_places import on_this_machine
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.plan.cache_folders import cache_folders
from headrace.plan.observed import Node, Room
from headrace.plan.reasons import Wait
from headrace.plan.runtimes import wanted_of

_NAMESPACES = Path("/run/netns")


def node_facts(nodes: Iterable[VirtualNode], rooms: Mapping[str, Room]) -> tuple[Node, ...]:
    """The virtual nodes. They share the disks (`rooms`) and the memory of this machine."""
    memory = Room("memory", os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return tuple(
        Node(
            node.name,
            dict(node.labels),
            taints=node.taints,
            is_ready=node.is_made,
            disks=rooms,
            memory=memory,
        )
        for node in nodes
    )


def is_ready(node: VirtualNode) -> bool:
    """True if programs can begin on a node: it is made, and its namespace has not been taken away since."""
    return node.is_made and (node.namespace is None or (_NAMESPACES / node.namespace).exists())


def rooms_of(runtime: Runtime | None, key: str, status: Mapping[str, Any] | None) -> dict[str, Room]:
    """The room at each folder of a dataset's cache: what is free, and what its workers hold. Blocks."""
    folders = cache_folders(wanted_of(runtime), key, None) if runtime else ()
    held = _held_bytes(status)
    found: dict[str, tuple[str, int, str]] = {}
    if not isinstance(folders, Wait):
        found = {each.folder: (*_disk_of(on_this_machine(each.folder)), each.medium) for each in folders}
    media = {
        disk: {medium for other, _, medium in found.values() if other == disk}
        for disk, _, _ in found.values()
    }
    return {
        folder: Room(disk, free + sum(held.get(medium, 0) for medium in media[disk]))
        for folder, (disk, free, _) in found.items()
    }


def _held_bytes(status: Mapping[str, Any] | None) -> dict[str, int]:
    """What all workers hold, by the medium of the level."""
    found: dict[str, int] = {}
    for row in (status or {}).get("workers", ()):
        for level in row["levels"]:
            found[level["medium"]] = found.get(level["medium"], 0) + level["used_bytes"]
    return found


def _disk_of(folder: str) -> tuple[str, int]:
    """Which disk a folder is on, or will be, and how much is free there."""
    path = Path(folder)
    there = next(each for each in (path, *path.parents) if each.exists())
    found = os.statvfs(there)
    return str(there.stat().st_dev), found.f_bavail * found.f_frsize

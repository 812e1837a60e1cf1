"""What a master says of its data, and what a node has room for, as facts for the planner."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.api.kinds import Runtime
from headrace.local.nodes import VirtualNode
from headrace.plan.observed import DataFacts, Node, Room
from headrace.plan.reasons import Wait
from headrace.plan.runtimes import wanted_of
from headrace.plan.tiers import cache_folders

_WINDOW_S = 60.0
_SAMPLE_S = 5.0


def data_facts(status: Mapping[str, Any]) -> DataFacts:
    """The status of a cluster as the planner wants it."""
    snapshot = status.get("snapshot") or {}
    local, peer, origin = _window(status)
    fault = status.get("refresh_error")
    return DataFacts(
        files=snapshot.get("files", 0),
        size_bytes=snapshot.get("data_bytes", 0),
        cached_bytes=status["cached_bytes"],
        capacity_bytes=status["capacity_bytes"],
        local_bytes=local,
        peer_bytes=peer,
        origin_bytes=origin,
        snapshot_version=snapshot.get("version", 0),
        fault_kind=(status.get("refresh_error_kind") or "Unexpected") if fault else "",
        fault_message=fault or "",
    )


def _window(status: Mapping[str, Any]) -> tuple[int, int, int]:
    """Bytes of the last minute by their source."""
    since = status["now_s"] - _WINDOW_S
    samples = [sample[1:] for sample in status["throughput"] if sample[0] > since]
    local, peer, origin = (
        (int(sum(column) * _SAMPLE_S) for column in zip(*samples, strict=True)) if samples else (0, 0, 0)
    )
    return local, peer, origin


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


def rooms_of(runtime: Runtime | None, key: str, status: Mapping[str, Any] | None) -> dict[str, Room]:
    """What there is room for at each folder of a dataset's cache: what is free, and what its workers hold. Blocks."""
    folders = cache_folders(wanted_of(runtime), key) if runtime else ()
    held = _held_bytes(status)
    found: dict[str, tuple[str, int, str]] = {}
    if not isinstance(folders, Wait):
        found = {each.folder: (*_disk_of(each.folder), each.medium) for each in folders}
    media = {
        disk: {medium for other, _, medium in found.values() if other == disk}
        for disk, _, _ in found.values()
    }
    return {
        folder: Room(disk, free + sum(held.get(medium, 0) for medium in media[disk]))
        for folder, (disk, free, _) in found.items()
    }


def cached_by_node(status: Mapping[str, Any] | None) -> dict[str, int]:
    """What the workers on each node hold."""
    found: dict[str, int] = {}
    for row in (status or {}).get("workers", ()):
        found[row["node"]] = found.get(row["node"], 0) + row["cached_bytes"]
    return found


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

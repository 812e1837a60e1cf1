"""What a master says of its data, and what a node has room for, as facts for the planner."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.api.kinds import Runtime
from headrace.local.nodes import VirtualNode
from headrace.plan.observed import DataFacts, Node

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
        is_listing=not status.get("has_listed", True),
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


def node_facts(
    nodes: Iterable[VirtualNode], folders: Iterable[str], cached_bytes: Mapping[str, int]
) -> tuple[Node, ...]:
    """The virtual nodes. They share the disks and the memory of this machine. Blocks."""
    free = {folder: _free_bytes(folder) for folder in folders}
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return tuple(
        Node(
            node.name,
            dict(node.labels),
            is_ready=node.is_made,
            free_bytes={folder: room + cached_bytes.get(node.name, 0) for folder, room in free.items()},
            memory_bytes=memory,
        )
        for node in nodes
    )


def cache_paths(runtime: Runtime | None) -> list[str]:
    """The folders that a runtime names for its cache."""
    store = runtime.spec.tieredstore if runtime else None
    return [path for level in (store.levels if store else ()) for path in level.paths]


def cached_by_node(status: Mapping[str, Any] | None) -> dict[str, int]:
    """What the workers on each node hold."""
    found: dict[str, int] = {}
    for row in (status or {}).get("workers", ()):
        found[row["node"]] = found.get(row["node"], 0) + row["cached_bytes"]
    return found


def _free_bytes(folder: str) -> int:
    path = Path(folder)
    there = next(each for each in (path, *path.parents) if each.exists())
    found = os.statvfs(there)
    return found.f_bavail * found.f_frsize

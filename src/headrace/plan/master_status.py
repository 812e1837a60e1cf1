"""The status that a master tells, as facts for the planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.plan.observed import DataFacts

# A request that is tried again now and then is nothing to tell of.
_SILENT_S = 10.0


def data_facts(status: Mapping[str, Any]) -> DataFacts:
    """The status of a cluster as the planner wants it."""
    snapshot = status.get("snapshot") or {}
    reads = status.get("last_minute") or {}
    fault = status.get("refresh_error")
    return DataFacts(
        files=snapshot.get("files", 0),
        size_bytes=snapshot.get("data_bytes", 0),
        cached_bytes=status["cached_bytes"],
        capacity_bytes=status["capacity_bytes"],
        read_bytes=reads.get("read_bytes", 0),
        remote_bytes=reads.get("remote_bytes", 0),
        fetched_bytes=reads.get("fetched_bytes", 0),
        snapshot_version=snapshot.get("version", 0),
        is_listing=not status.get("has_listed", True),
        fault_kind=(status.get("refresh_error_kind") or "Unexpected") if fault else "",
        fault_message=fault or "",
        unanswered=tuple(row["id"] for row in status["workers"] if _asks_in_vain(row)),
    )


def _asks_in_vain(row: Mapping[str, Any]) -> bool:
    return bool(row.get("is_listed")) and row.get("origin_silent_s", 0.0) > _SILENT_S


def cached_by_node(status: Mapping[str, Any] | None) -> dict[str, int]:
    """The bytes that the workers on each node hold."""
    found: dict[str, int] = {}
    for row in (status or {}).get("workers", ()):
        found[row["node"]] = found.get(row["node"], 0) + row["cached_bytes"]
    return found

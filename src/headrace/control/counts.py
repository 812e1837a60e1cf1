"""The numbers of a cluster, for who shows no token: its status without names of files, datasets, nodes and addresses.

Only fields that stand here are told; one that the status gets some day stays inside. Names keep their places, empty, so
that commands of earlier versions print the rest. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WHOLE = (
    "now_s",
    "epoch",
    "learns_for_s",
    "replicas",
    "refresh_error_kind",
    "has_listed",
    "capacity_bytes",
    "cached_bytes",
    "pinned_files",
    "last_minute",
    "throughput",
)
_SNAPSHOT = ("version", "files", "directories", "data_bytes", "file_bytes", "taken_at_s")
_LEVEL = ("medium", "quota_bytes", "used_bytes")
_WORKER = (
    "state",
    "is_listed",
    "joined_epoch",
    "started_at_s",
    "capacity_bytes",
    "cached_bytes",
    "heartbeat_age_s",
    "origin_bytes",
    "loaded_bytes",
    "origin_silent_s",
    "drained_bytes",
    "to_drain_bytes",
)
_MOUNT = ("snapshot_version", "local_bytes", "peer_bytes", "origin_bytes", "heartbeat_age_s")
_LOAD = (
    "action",
    "pin",
    "state",
    "complete",
    "done_bytes",
    "total_bytes",
    "done_files",
    "total_files",
    "origin_bytes",
    "did_not_fit_bytes",
    "faults",
    "created_at_s",
    "ended_at_s",
)
_LISTING_FAILED = "the storage cannot be listed; a token of the cluster shows why"


def counts_of(status: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a status (`headrace.control.status`)."""
    snapshot = status["snapshot"]
    return {
        "named": False,
        "cluster": "",
        "origins": [],
        "notices": [],
        "refresh_error": _LISTING_FAILED if status["refresh_error"] else None,
        "snapshot": _picked(snapshot, _SNAPSHOT) if snapshot else None,
        "workers": [_worker(row) for row in status["workers"]],
        "mounts": [_picked(row, _MOUNT) | {"node": "", "mountpoint": ""} for row in status["mounts"]],
        "loads": [_picked(row, _LOAD) | {"id": "", "paths": [], "more_paths": 0} for row in status["loads"]],
        **_picked(status, _WHOLE),
    }


def _worker(row: Mapping[str, Any]) -> dict[str, Any]:
    names = {"id": "", "address": "", "node": "", "version": "", "hanging_folders": []}
    levels = [_picked(level, _LEVEL) | {"trouble": ""} for level in row["levels"]]
    return _picked(row, _WORKER) | names | {"levels": levels}


def _picked(row: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {field: row[field] for field in fields if field in row}

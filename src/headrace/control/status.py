"""The whole cluster as one JSON object, for people, the web page and scripts that show a token. Holds no secret.

The part of it for those without a token is made in `headrace.control.counts`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.control.cluster import Cluster
from headrace.control.messages import MOST_REPORTED_WORKERS, ClusterReport, LoadReport, shown_path
from headrace.control.roster import Row

_MOST_SHOWN_PATHS = 3
_MOST_SHOWN_LOADS = 20
_LONGEST_ERROR = 2000


def cluster_status(cluster: Cluster, *, now_s: float, monotonic_s: float) -> dict[str, Any]:
    """Everything that is known at this moment."""
    rows = list(cluster.roster.rows())
    workers = [_worker(row, monotonic_s) for row in rows]
    listed = [row for row in rows if row.worker.is_listed]
    newest = cluster.shelf.newest
    return {
        "named": True,
        "cluster": cluster.rules.name,
        "now_s": now_s,
        "epoch": cluster.view.epoch,
        "learns_for_s": round(cluster.roster.learns_for_s(monotonic_s), 1)
        if cluster.view.epoch == 0
        else 0.0,
        "replicas": cluster.rules.policy.replicas,
        "origins": list(cluster.rules.origin_labels),
        "snapshot": newest.note.model_dump() if newest else None,
        "refresh_error": cluster.shelf.refresh_error,
        "refresh_error_kind": cluster.shelf.refresh_error_kind,
        "notices": list(cluster.shelf.notices),
        "has_listed": cluster.shelf.has_tried,
        "capacity_bytes": sum(row.worker.facts.capacity_bytes for row in listed),
        "cached_bytes": sum(row.cached_bytes for row in listed),
        "pinned_files": cluster.pin_board.pins.count,
        "workers": workers,
        "mounts": cluster.mounts.rows(monotonic_s),
        "loads": [load_row(report) for report in cluster.loads.reports()[:_MOST_SHOWN_LOADS]],
        "last_minute": asdict(cluster.throughput.last_minute(monotonic_s)),
        "throughput": [
            [
                round(now_s - monotonic_s + each.at_s, 1),
                round(each.local),
                round(each.peer),
                round(each.origin),
            ]
            for each in cluster.throughput.samples(monotonic_s)
        ],
    }


def cluster_report(cluster: Cluster, *, now_s: float, monotonic_s: float) -> ClusterReport:
    """The same for a planner, without what people alone look at."""
    status = cluster_status(cluster, now_s=now_s, monotonic_s=monotonic_s)
    error = status["refresh_error"]
    shown = {**status, "refresh_error": error[:_LONGEST_ERROR] if error else None}
    shown["workers"] = status["workers"][:MOST_REPORTED_WORKERS]
    return ClusterReport.model_validate(shown, strict=False)


def _worker(row: Row, monotonic_s: float) -> dict[str, Any]:
    worker, beat = row.worker, row.beat
    return {
        "id": worker.facts.id,
        "address": worker.facts.address,
        "node": worker.facts.node,
        "state": worker.state.value,
        "is_listed": worker.is_listed,
        "joined_epoch": worker.joined_epoch,
        "started_at_s": round(worker.incarnation / 1e9, 3),
        "capacity_bytes": worker.facts.capacity_bytes,
        "cached_bytes": row.cached_bytes,
        "heartbeat_age_s": round(max(monotonic_s - row.heard_s, 0.0), 3) if row.heard_s is not None else None,
        "origin_bytes": beat.traffic.origin_bytes if beat else 0,
        "loaded_bytes": beat.traffic.loaded_bytes if beat else 0,
        "origin_silent_s": round(beat.origin_silent_s, 3) if beat else 0.0,
        "levels": [level.model_dump() for level in beat.levels] if beat else [],
        "drained_bytes": beat.drained_bytes if beat else 0,
        "to_drain_bytes": beat.to_drain_bytes if beat else 0,
        "hanging_folders": list(beat.hanging_folders) if beat else [],
        "version": beat.version if beat else "",
    }


def load_row(report: LoadReport) -> dict[str, Any]:
    """A load for people: a few of its paths, and how far it is. Names of single files that failed stay inside."""
    paths = [shown_path(path) for path in report.order.paths[:_MOST_SHOWN_PATHS]] or ["/"]
    return {
        "id": report.id,
        "action": report.order.action.value,
        "paths": paths,
        "more_paths": max(len(report.order.paths) - _MOST_SHOWN_PATHS, 0),
        "pin": report.order.pin,
        "state": report.state.value,
        "complete": report.complete,
        "done_bytes": report.done_bytes,
        "total_bytes": report.total_bytes,
        "done_files": report.done_files,
        "total_files": report.total_files,
        "origin_bytes": report.origin_bytes,
        "did_not_fit_bytes": report.did_not_fit_bytes,
        "faults": len(report.errors),
        "created_at_s": report.created_at_s,
        "ended_at_s": report.ended_at_s,
    }

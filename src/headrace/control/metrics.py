"""The master's metrics in the OpenMetrics format. One table says each name, unit and meaning."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.control.cluster import Cluster
from headrace.control.messages import LoadState
from headrace.control.signing import Verdict
from headrace.membership import WorkerState
from headrace.openmetrics import Family, Samples, text_of

FAMILIES = (
    Family("headrace_master_epoch", "gauge", "", "Epoch of the view of members"),
    Family(
        "headrace_master_workers",
        "gauge",
        "",
        "Workers, by state; active, suspect and draining ones are in the view",
    ),
    Family("headrace_master_mounts", "gauge", "", "Mounts that reported lately"),
    Family("headrace_master_heartbeats", "counter", "", "Heartbeats of workers and mounts"),
    Family("headrace_master_capacity_bytes", "gauge", "bytes", "Room for blocks on all workers"),
    Family("headrace_master_cached_bytes", "gauge", "bytes", "Bytes that the workers have cached"),
    Family("headrace_master_snapshot_version", "gauge", "", "Version of the snapshot in use; 0: none yet"),
    Family("headrace_master_snapshot_files", "gauge", "", "Files of the snapshot in use"),
    Family("headrace_master_snapshot_data_bytes", "gauge", "bytes", "Bytes of the snapshot's files"),
    Family("headrace_master_snapshot_failing", "gauge", "", "1 while the last try for a new snapshot failed"),
    Family("headrace_master_loads", "gauge", "", "Loads, by state"),
    Family("headrace_master_pinned_files", "gauge", "", "Files that workers keep whatever else is read"),
    Family("headrace_master_requests", "counter", "", "Requests, by path and status"),
    Family("headrace_master_refused_requests", "counter", "", "Requests that were not let in, by reason"),
)


def metrics_text(
    cluster: Cluster, requests: Mapping[tuple[str, int], int], refused: Mapping[Verdict, int]
) -> str:
    """The text that Prometheus reads."""
    return text_of(FAMILIES, _samples(cluster, requests, refused))


def _samples(
    cluster: Cluster, requests: Mapping[tuple[str, int], int], refused: Mapping[Verdict, int]
) -> dict[str, Samples]:
    rows = list(cluster.roster.rows())
    workers = [row.worker for row in rows]
    listed = [row for row in rows if row.worker.is_listed]
    newest = cluster.shelf.newest
    note = newest.note if newest else None
    reports = cluster.loads.reports()
    return {
        "headrace_master_epoch": cluster.view.epoch,
        "headrace_master_workers": [
            ({"state": state.value}, sum(worker.state is state for worker in workers))
            for state in WorkerState
        ],
        "headrace_master_mounts": cluster.mounts.count,
        "headrace_master_heartbeats": cluster.heartbeats,
        "headrace_master_capacity_bytes": sum(row.worker.facts.capacity_bytes for row in listed),
        "headrace_master_cached_bytes": sum(row.cached_bytes for row in listed),
        "headrace_master_snapshot_version": note.version if note else 0,
        "headrace_master_snapshot_files": note.files if note else 0,
        "headrace_master_snapshot_data_bytes": note.data_bytes if note else 0,
        "headrace_master_snapshot_failing": int(cluster.shelf.refresh_error is not None),
        "headrace_master_loads": [
            ({"state": state.value}, sum(report.state is state for report in reports)) for state in LoadState
        ],
        "headrace_master_pinned_files": cluster.pin_board.pins.count,
        "headrace_master_requests": [
            ({"path": path, "status": str(status)}, count)
            for (path, status), count in sorted(requests.items())
        ],
        "headrace_master_refused_requests": [
            ({"reason": verdict.name.lower()}, refused.get(verdict, 0))
            for verdict in Verdict
            if verdict is not Verdict.GOOD
        ],
    }

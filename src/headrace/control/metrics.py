"""The master's metrics in the OpenMetrics format. One table says each name, unit and meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.control.cluster import Cluster
from headrace.control.messages import LoadState
from headrace.control.signing import Verdict
from headrace.membership import WorkerState

Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True)
class Family:
    """One metric by its name, without the `_total` that a counter's sample ends in."""

    name: str
    kind: str
    unit: str
    meaning: str


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
    samples = _samples(cluster, requests, refused)
    return "".join(line for family in FAMILIES for line in _lines(family, samples[family.name])) + "# EOF\n"


def _samples(
    cluster: Cluster, requests: Mapping[tuple[str, int], int], refused: Mapping[Verdict, int]
) -> dict[str, list[Sample]]:
    workers = [row.worker for row in cluster.roster.rows()]
    listed = [worker.facts for worker in workers if worker.is_listed]
    newest = cluster.shelf.newest
    note = newest.note if newest else None
    reports = cluster.loads.reports()
    return {
        "headrace_master_epoch": _one(cluster.view.epoch),
        "headrace_master_workers": [
            ({"state": state.value}, sum(worker.state is state for worker in workers))
            for state in WorkerState
        ],
        "headrace_master_mounts": _one(cluster.mounts.count),
        "headrace_master_heartbeats": _one(cluster.heartbeats),
        "headrace_master_capacity_bytes": _one(sum(facts.capacity_bytes for facts in listed)),
        "headrace_master_cached_bytes": _one(sum(facts.cached_bytes for facts in listed)),
        "headrace_master_snapshot_version": _one(note.version if note else 0),
        "headrace_master_snapshot_files": _one(note.files if note else 0),
        "headrace_master_snapshot_data_bytes": _one(note.data_bytes if note else 0),
        "headrace_master_snapshot_failing": _one(int(cluster.shelf.refresh_error is not None)),
        "headrace_master_loads": [
            ({"state": state.value}, sum(report.state is state for report in reports)) for state in LoadState
        ],
        "headrace_master_pinned_files": _one(len(cluster.pin_board.pins.ids)),
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


def _one(value: float) -> list[Sample]:
    return [({}, value)]


def _lines(family: Family, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {family.name} {family.meaning}.\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    if family.unit:
        yield f"# UNIT {family.name} {family.unit}\n"
    suffix = "_total" if family.kind == "counter" else ""
    for labels, value in samples:
        text = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
        yield f"{family.name}{suffix}{f'{{{text}}}' if text else ''} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""The metrics of an operator, in the OpenMetrics format."""

from __future__ import annotations

from collections import Counter

from headrace.api.dataset import DatasetPhase
from headrace.openmetrics import Family, Samples, text_of
from headrace.operator.mirror import Mirror
from headrace.work_queue import WorkQueue, families, samples_of

_PREFIX = "headrace_operator"
FAMILIES = (
    Family(f"{_PREFIX}_leads", "gauge", "", "1 while this replica leads, 0 while it waits for its turn"),
    Family(f"{_PREFIX}_listed", "gauge", "", "1 once it has listed everything that it follows"),
    Family(f"{_PREFIX}_datasets", "gauge", "", "Datasets, by phase; the leader tells"),
    *families(_PREFIX, "dataset"),
)


def metrics_text(mirror: Mirror, queue: WorkQueue | None, *, is_ready: bool) -> str:
    """The text that Prometheus reads; `queue` is that of the one who leads."""
    samples: dict[str, Samples] = {
        f"{_PREFIX}_leads": int(queue is not None),
        f"{_PREFIX}_listed": int(is_ready),
        f"{_PREFIX}_datasets": _datasets(mirror) if queue is not None else [],
    }
    return text_of(FAMILIES, samples | samples_of(_PREFIX, queue))


def _datasets(mirror: Mirror) -> Samples:
    phases = Counter((each.get("status") or {}).get("phase") for each in mirror.all("Dataset"))
    return [({"phase": phase}, phases[phase]) for phase in DatasetPhase]

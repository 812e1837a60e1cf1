"""What an operator counts, in the OpenMetrics format."""

from __future__ import annotations

from collections import Counter

from headrace.api.dataset import DatasetPhase
from headrace.attention import Attention, families, samples_of
from headrace.openmetrics import Family, Samples, text_of
from headrace.operator.mirror import Mirror

_PREFIX = "headrace_operator"
FAMILIES = (
    Family(f"{_PREFIX}_leads", "gauge", "", "1 while this replica leads, 0 while it waits for its turn"),
    Family(f"{_PREFIX}_listed", "gauge", "", "1 once it has listed everything that it follows"),
    Family(f"{_PREFIX}_datasets", "gauge", "", "Datasets, by phase; the leader tells"),
    *families(_PREFIX, "dataset"),
)


def metrics_text(mirror: Mirror, attention: Attention | None, *, is_ready: bool) -> str:
    """The text that Prometheus reads; `attention` is that of the one who leads."""
    samples: dict[str, Samples] = {
        f"{_PREFIX}_leads": int(attention is not None),
        f"{_PREFIX}_listed": int(is_ready),
        f"{_PREFIX}_datasets": _datasets(mirror) if attention is not None else [],
    }
    return text_of(FAMILIES, samples | samples_of(_PREFIX, attention))


def _datasets(mirror: Mirror) -> Samples:
    phases = Counter((each.get("status") or {}).get("phase") for each in mirror.all("Dataset"))
    return [({"phase": phase}, phases[phase]) for phase in DatasetPhase]

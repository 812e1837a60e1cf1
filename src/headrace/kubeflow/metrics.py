"""The metrics of a keeper of jobs, in the OpenMetrics format."""

from __future__ import annotations

from headrace.openmetrics import Family, Samples, text_of
from headrace.work_queue import WorkQueue, families, samples_of

_PREFIX = "headrace_jobs"
FAMILIES = (
    Family(f"{_PREFIX}_leads", "gauge", "", "1 while this replica leads, 0 while it waits for its turn"),
    Family(f"{_PREFIX}_listed", "gauge", "", "1 once it has listed all training jobs and their pods"),
    Family(f"{_PREFIX}_followed", "gauge", "", "Training jobs that were submitted with our commands"),
    *families(_PREFIX, "job"),
)


def metrics_text(jobs: int, queue: WorkQueue | None, *, is_ready: bool) -> str:
    """The text that Prometheus reads; `queue` is that of the one who leads."""
    samples: dict[str, Samples] = {
        f"{_PREFIX}_leads": int(queue is not None),
        f"{_PREFIX}_listed": int(is_ready),
        f"{_PREFIX}_followed": jobs,
    }
    return text_of(FAMILIES, samples | samples_of(_PREFIX, queue))

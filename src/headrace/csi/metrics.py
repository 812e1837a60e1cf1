"""The metrics of the driver, in the OpenMetrics format."""

from __future__ import annotations

from headrace.openmetrics import Family, text_of

FAMILIES = (
    Family("headrace_csi_published", "gauge", "", "Target paths at which a volume is published"),
    Family("headrace_csi_mounts_held", "gauge", "", "Mounts whose descriptors the keeper holds"),
    Family("headrace_csi_mounts_unattended", "gauge", "", "Those that no supervisor looks after now"),
    Family("headrace_csi_rebinds", "counter", "", "Target paths that got a new mount over one that was lost"),
)


def metrics_text(*, published: int, held: int, unattended: int, rebound: int) -> str:
    """The text that Prometheus reads."""
    values = (published, held, unattended, rebound)
    return text_of(FAMILIES, {family.name: value for family, value in zip(FAMILIES, values, strict=True)})

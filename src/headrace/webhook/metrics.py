"""The metrics of a replica of the webhook, in the OpenMetrics format. One table says each name, kind and meaning."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from headrace.openmetrics import Family, Samples, text_of

FAMILIES = (
    Family(
        "headrace_webhook_answers",
        "counter",
        "",
        "Pods and declared objects that it was asked about, by what became of them",
    ),
    Family(
        "headrace_webhook_answer_seconds", "counter", "seconds", "Seconds that its answers took, all together"
    ),
    Family(
        "headrace_webhook_unmet_demands",
        "counter",
        "",
        "Pods whose label demands nodes with the data of a dataset, and which got none of them",
    ),
    Family("headrace_webhook_ready", "gauge", "", "1 once it is announced and has listed all datasets"),
    Family(
        "headrace_webhook_certificate_ends_seconds",
        "gauge",
        "seconds",
        "Unix time at which the certificate ends that it serves with; 0: none yet",
    ),
)


class Result(StrEnum):
    """The result for a pod or a declared object."""

    STEERED = "steered"
    UNCHANGED = "unchanged"
    WARNED = "warned"
    """Taken, and its author told what of it is not used."""
    REFUSED = "refused"
    """A declared object that can never be right."""
    LATE = "late"
    """Let in as it is, since nothing was known in time."""
    FAILED = "failed"
    """Let in as it is, since something went wrong."""


@dataclass
class Tally:
    """The answers since the process began."""

    answers: Counter[Result] = field(default_factory=Counter)
    seconds: float = 0.0
    unmet: int = 0

    def count(self, result: Result, seconds: float, *, is_unmet: bool) -> None:
        """Notes one answer."""
        self.answers[result] += 1
        self.seconds += seconds
        self.unmet += is_unmet


def metrics_text(tally: Tally, *, is_ready: bool, ends: datetime | None) -> str:
    """The text that Prometheus reads."""
    samples: dict[str, Samples] = {
        "headrace_webhook_answers": [({"result": result}, tally.answers[result]) for result in Result],
        "headrace_webhook_answer_seconds": round(tally.seconds, 6),
        "headrace_webhook_unmet_demands": tally.unmet,
        "headrace_webhook_ready": int(is_ready),
        "headrace_webhook_certificate_ends_seconds": int(ends.timestamp()) if ends else 0,
    }
    return text_of(FAMILIES, samples)

"""The metrics of a process, as the text that Prometheus reads: https://prometheus.io/docs/specs/om/open_metrics_spec.

Each role has one table of families, which its part of the reference is made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""The type of the text, for HTTP."""

Sample = tuple[Mapping[str, str], float]
"""Labels and value."""
Samples = float | Sequence[Sample]
"""Of one family: a value without labels, or one for each set of labels."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric by its name, without the `_total` that a counter's samples end in."""

    name: str
    kind: str
    unit: str
    meaning: str

    @property
    def sample_name(self) -> str:
        """The name of its samples, as queries have it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def text_of(families: Iterable[Family], samples: Mapping[str, Samples]) -> str:
    """The whole text. `samples` has those of each family by its name."""
    # Here, since a mount has its numbers from the engine, and no need of a library.
    from prometheus_client.metrics_core import Metric  # noqa: PLC0415
    from prometheus_client.openmetrics.exposition import generate_latest  # noqa: PLC0415

    class Table:
        def collect(self) -> Iterable[Metric]:
            for family in families:
                metric = Metric(family.name, f"{family.meaning}.", family.kind, family.unit)
                for labels, value in _labelled(samples[family.name]):
                    metric.add_sample(family.sample_name, dict(labels), value)
                yield metric

    return str(generate_latest(Table()), "utf-8")  # type: ignore[no-untyped-call]


def _labelled(samples: Samples) -> Iterable[Sample]:
    return samples if isinstance(samples, Sequence) else [({}, samples)]

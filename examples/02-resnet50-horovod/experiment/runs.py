"""What one training of the experiment was, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from experiment.plan import Shape, Way


@dataclass(frozen=True)
class Run:
    """One training that was run."""

    shape: Shape
    way: Way
    result: Mapping[str, Any]
    job: Mapping[str, Any]
    link_bytes: int
    """That came over the storage's link meanwhile."""
    requests: int
    page_cache_dropped: bool
    cached_before: str = ""

    @property
    def time_s(self) -> float:
        """From the first batch that was asked for to the end of the last step."""
        return float(self.result["time_s"])

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return {**asdict(self), "shape": self.shape.name, "way": self.way.value, "time_s": self.time_s}

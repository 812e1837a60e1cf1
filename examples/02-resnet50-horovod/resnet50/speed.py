"""How fast a training is: times of steps into images a second, and the lines that tf_cnn_benchmarks prints. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

HEADING = "Step\tImg/sec\ttotal_loss"


@dataclass
class Speedometer:
    """The times at which steps ended, in seconds since the first batch was asked for."""

    images_per_step: int
    ends_s: list[float] = field(default_factory=list)

    def add(self, end_s: float) -> None:
        """A step has ended."""
        self.ends_s.append(end_s)

    @property
    def steps(self) -> int:
        """How many have ended."""
        return len(self.ends_s)

    @property
    def total_images_per_s(self) -> float:
        """Over all steps, the wait for the first batch included."""
        return self.images_per_step * self.steps / self.ends_s[-1] if self.ends_s else 0.0

    def line(self, loss: float) -> str:
        """As tf_cnn_benchmarks writes it: mean speed so far, its uncertainty, and how much steps differ."""
        durations = step_durations(self.ends_s)
        mean, uncertainty, jitter = perf_timing(self.images_per_step, durations)
        return (
            f"{self.steps}\timages/sec: {mean:.1f} +/- {uncertainty:.1f} (jitter = {jitter:.1f})\t{loss:.3f}"
        )


def step_durations(ends_s: Sequence[float]) -> list[float]:
    """How long each step took; the first from 0."""
    return [end - start for start, end in zip([0.0, *ends_s], ends_s, strict=False)]


def perf_timing(images: int, durations_s: Sequence[float]) -> tuple[float, float, float]:
    """(mean, uncertainty of the mean, jitter) of images a second; jitter is the scaled median deviation."""
    speeds = [images / max(duration, 1e-9) for duration in durations_s]
    mean = images / max(statistics.fmean(durations_s), 1e-9)
    uncertainty = statistics.pstdev(speeds) / math.sqrt(len(speeds))
    median = statistics.median(speeds)
    # 1.4826: the median deviation of a normal distribution of standard deviation 1.
    jitter = 1.4826 * statistics.median(abs(speed - median) for speed in speeds)
    return mean, uncertainty, jitter

"""Medians, spreads and ratios of repeated measurements. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Better(Enum):
    """The direction in which a figure is good."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True)
class Summary:
    """Some repetitions of one measurement in three numbers."""

    median: float
    smallest: float
    largest: float
    count: int

    @property
    def spread(self) -> float:
        """The range as a share of the median; 0 for a single repetition or a median of 0."""
        return (self.largest - self.smallest) / abs(self.median) if self.median else 0.0


def summarize(values: Sequence[float]) -> Summary:
    """Median and range; a ValueError when there is nothing to summarize."""
    if not values:
        raise ValueError("no values to summarize")
    return Summary(statistics.median(values), min(values), max(values), len(values))


def advantage(ours: float, theirs: float, better: Better) -> float | None:
    """How many times as good ours is: 2.0 is twice the rate, or half the time. None when a zero forbids it."""
    over, under = (ours, theirs) if better is Better.HIGHER else (theirs, ours)
    return over / under if under > 0 else None


def best(medians: dict[str, float], better: Better) -> str | None:
    """The name with the best figure, the first of equals; None when there is none."""
    if not medians:
        return None
    choose = max if better is Better.HIGHER else min
    return choose(medians, key=lambda name: medians[name])

"""The figures of a run: for each row and contender the repeated values, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.report.statistics import Better, Summary, summarize


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    key: str
    title: str
    unit: str
    better: Better = Better.HIGHER
    cache: str = ""
    """The state of the caches when it is measured, for people."""
    compare: bool = True
    """Whether a ratio to the local file system and to peers says something."""


@dataclass
class Samples:
    """Grows while the run goes on."""

    rows: dict[str, Row] = field(default_factory=dict)
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    histograms: dict[str, dict[str, int]] = field(default_factory=dict)
    """Title → bucket → count, where a single figure says too little."""

    def add(self, row: Row, contender: str, value: float) -> None:
        self.rows.setdefault(row.key, row)
        self.values.setdefault(row.key, {}).setdefault(contender, []).append(value)

    def leave_out(self, row: Row, contender: str, reason: str) -> None:
        """The first reason stays: what follows is most often its consequence."""
        self.rows.setdefault(row.key, row)
        self.reasons.setdefault(row.key, {}).setdefault(contender, reason)

    def gave_up(self, row: Row, contender: str) -> bool:
        return contender in self.reasons.get(row.key, {})

    def summaries(self, key: str) -> Mapping[str, Summary]:
        """Of the contenders that have values and gave no reason against them."""
        left_out = self.reasons.get(key, {})
        known = self.values.get(key, {})
        return {name: summarize(values) for name, values in known.items() if values and name not in left_out}

    def contenders(self) -> Sequence[str]:
        """Every contender that appears, in the order in which it was seen first."""
        seen: list[Mapping[str, object]] = [*self.values.values(), *self.reasons.values()]
        names = [name for by_name in seen for name in by_name]
        return list(dict.fromkeys(names))

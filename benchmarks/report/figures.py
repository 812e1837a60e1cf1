"""Numbers as people read them: three digits that matter, no false precision."""

from __future__ import annotations

from benchmarks.report.record import Ratios
from benchmarks.report.statistics import Summary


def number(value: float) -> str:
    """Three significant digits, thousands separated: 0.0123, 1.23, 12.3, 1,230."""
    magnitude = abs(value)
    if magnitude >= 1000:
        return f"{value:,.0f}"
    if magnitude >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def summary(value: Summary) -> str:
    """The median, with its range when there is one."""
    if value.count == 1:
        return number(value.median)
    return f"{number(value.median)} ({number(value.smallest)}–{number(value.largest)})"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}×" if value < 100 else f"{value:,.0f}×"


def comparison(value: Ratios) -> str:
    """The ratio to the local file system and to the best peer, as far as there are any."""
    parts = []
    if value.to_local is not None:
        parts.append(f"{ratio(value.to_local)} local")
    if value.to_best_peer is not None:
        parts.append(f"{ratio(value.to_best_peer)} {value.best_peer}")
    return ", ".join(parts)

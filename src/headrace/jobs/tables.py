"""Text in columns as Go's tabwriter of Arena writes it, and amounts as Arena's first releases word them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from headrace.api.formats import format_bytes, format_percentage
from headrace.jobs.views import DataCost, JobView

NOTHING = "N/A"
_GAP = 2


def align(rows: Sequence[Sequence[str]]) -> str:
    """Lines in columns, two blanks between them, the last cell of a line not padded."""
    count = max((len(cells) for cells in rows), default=0)
    widths = [
        max((len(cells[number]) + _GAP for cells in rows if number < len(cells)), default=0)
        for number in range(count)
    ]
    return "\n".join(
        "".join(
            cell.ljust(widths[number]) if number < len(cells) - 1 else cell
            for number, cell in enumerate(cells)
        ).rstrip()
        for cells in rows
    )


def short(seconds: float) -> str:
    """`16s`, `56m`, `4h`, `3d`, `1y`: one unit, rounded down. Clocks may differ, so nothing is below zero."""
    whole = max(int(seconds), 0)
    for limit, unit_s, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h"), (365 * 86400, 86400, "d")):
        if whole < limit:
            return f"{whole // unit_s}{unit}"
    return f"{whole // (365 * 86400)}y"


def age(since: datetime | None, now: datetime) -> str:
    """The age of that moment."""
    return short((now - since) / timedelta(seconds=1)) if since else NOTHING


def duration_s(job: JobView, now: datetime) -> float:
    """The time that it has trained, or did: waiting does not count."""
    if job.started is None:
        return 0.0
    return max(((job.ended or now) - job.started) / timedelta(seconds=1), 0.0)


def cost_cells(cost: DataCost | None) -> list[str]:
    """Under `COST_TITLES`."""
    if cost is None:
        return [NOTHING] * len(COST_TITLES)
    total = cost.total_bytes
    return [
        format_percentage(total - cost.origin_bytes, total) if total else NOTHING,
        format_bytes(cost.origin_bytes),
        format_bytes(cost.peer_bytes),
        f"{'~' if cost.is_reckoned else ''}{format_bytes(cost.local_bytes)}",
        f"{cost.stalled_s:.1f}s",
    ]


def cost_note(cost: DataCost | None) -> str:
    """The note without which these amounts cannot be read; empty: none."""
    notes = []
    if cost is not None and cost.is_shared:
        notes.append("other programs read through the same caches, and their reads are counted here")
    if cost is not None and cost.is_reckoned:
        notes.append("local bytes (~) are reckoned: files were read by the kernel alone")
    return "; ".join(notes)


COST_TITLES = ("HIT RATIO", "FROM ORIGIN", "FROM PEERS", "LOCAL", "STALLED")
"""What reading cost a job: the part that was cached, bytes by where they came from, time that reads were waited for."""

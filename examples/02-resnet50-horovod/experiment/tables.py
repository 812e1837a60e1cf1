"""The seeds' two tables with our numbers, the bound beside each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiment.plan import Bound, Plan, Shape, Way, bound
from experiment.runs import Run

WINDOW = 20
"""The speed at a step is the mean over so much of the training: one part in 20, ending with that step."""


@dataclass(frozen=True)
class Column:
    """One way of one shape: what was measured, and what it is bound by."""

    run: Run
    bound: Bound
    speed_at_mark: float
    speed_at_end: float

    @property
    def excess(self) -> float:
        """How much longer than the bound, as a share of it."""
        return self.bound.excess(self.run.time_s)


@dataclass(frozen=True)
class Table:
    """One of the two: a shape by all ways."""

    shape: Shape
    marked_step: int
    columns: tuple[Column, ...]

    @property
    def title(self) -> str:
        """As in the seeds."""
        return f"horovod-{self.shape.name}"

    def rows(self) -> list[tuple[str, ...]]:
        """A label, and for each column the measured value and its bound (empty where there is none)."""
        return [
            ("", *_flat((column.run.way.value, "bound") for column in self.columns)),
            (
                "Training time",
                *_flat(
                    (duration(c.run.time_s), f"{duration(c.bound.time_s)} ({c.excess:+.1%})")
                    for c in self.columns
                ),
            ),
            (
                f"Speed at step {self.marked_step} (images/second)",
                *_flat((f"{c.speed_at_mark:.1f}", f"{c.bound.images_per_s:.1f}") for c in self.columns),
            ),
            (
                "Speed at the last step (images/second)",
                *_flat((f"{c.speed_at_end:.1f}", f"{c.bound.images_per_s:.1f}") for c in self.columns),
            ),
            ("steps", *_flat((str(c.run.result["steps"]), "") for c in self.columns)),
            ("Accuracy @ 5", *_flat((f"{c.run.result['accuracy_5']:.4f}", "") for c in self.columns)),
            ("Read over the link", *_flat((f"{c.run.link_bytes / 1e6:,.0f} MB", "") for c in self.columns)),
            ("Waited for data", *_flat((duration(c.run.result["waited_s"]), "") for c in self.columns)),
        ]


def table_of(plan: Plan, shape: Shape, runs: Sequence[Run], *, training_bytes: int) -> Table:
    """The table of one shape, its ways in the order in which they were run."""
    marked = plan.marked_step(shape)
    columns = []
    for run in runs:
        if run.shape == shape:
            ends_s, images = run.result["ends_s"], run.result["images_per_step"]
            columns.append(
                Column(
                    run,
                    bound(plan, shape, run.way, training_bytes=training_bytes),
                    speed_at(marked, ends_s, images),
                    speed_at(len(ends_s), ends_s, images),
                )
            )
    return Table(shape, marked, tuple(columns))


def speed_at(step: int, ends_s: Sequence[float], images_per_step: int) -> float:
    """Images a second around the end of a step, counted from 1: the mean over the steps before it."""
    first = max(step - max(len(ends_s) // WINDOW, 1), 0)
    since_s = ends_s[first - 1] if first else 0.0
    return images_per_step * (step - first) / (ends_s[step - 1] - since_s)


def savings(table: Table) -> list[str]:
    """How much shorter the other ways are than the straight one, as the seeds reckon it."""
    times = {column.run.way: column.run.time_s for column in table.columns}
    straight = times.get(Way.STRAIGHT)
    if straight is None:
        return []
    return [
        f"{table.title}: {way.value} takes {duration(time_s)} where {Way.STRAIGHT.value} takes "
        f"{duration(straight)}: {(time_s - straight) / straight:+.0%}"
        for way, time_s in times.items()
        if way is not Way.STRAIGHT
    ]


def disagreements(table: Table) -> list[str]:
    """What ways disagree on although they trained on the same images in the same order; empty when all is well."""
    found = []
    for field in ("steps", "images", "bytes", "accuracy_5"):
        values = {column.run.way.value: column.run.result[field] for column in table.columns}
        if max(values.values()) - min(values.values()) > TOLERANCES.get(field, 0):
            found.append(f"{table.title}: {field} differs: {values}")
    return found


TOLERANCES = {"accuracy_5": 0.02}
"""Ranks add their gradients in an order that MPI may choose anew."""


def text_of(table: Table) -> str:
    """For a terminal: columns padded with spaces."""
    rows = table.rows()
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *rest = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([first, *rest]).rstrip())
    return "\n".join([table.title, *lines])


def markdown_of(table: Table) -> str:
    """For a page: the same as a table of Markdown."""
    head, *rows = table.rows()
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(row)} |" for row in [(table.title, *head[1:]), rule, *rows])


def duration(seconds: float) -> str:
    """`3h49m10s` as in the seeds; tenths of a second below ten minutes, where they still tell something."""
    if seconds < 600:
        minutes, rest = divmod(round(seconds, 1), 60)
        return f"{int(minutes)}m{rest:04.1f}s" if minutes else f"{rest:.1f}s"
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m{whole:02d}s" if hours else f"{minutes}m{whole:02d}s"


def _flat(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [cell for pair in pairs for cell in pair]

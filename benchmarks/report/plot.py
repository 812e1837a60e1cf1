"""The picture: on every comparable row, each contender as a share of the local file system, or of the best of them."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.promises import LOCAL
from benchmarks.report.record import SUBJECT, Run
from benchmarks.report.statistics import advantage, best
from benchmarks.samples import Row

# Below this share all look alike: so slow that a longer axis would say nothing more.
FLOOR = 1e-4
COLOURS = {"local": "#333333", "headrace": "#1f77b4", "peer": "#bbbbbb"}
MARKERS = "osv^DPX*<>"


def write_plot(run: Run, path: Path) -> None:
    """A PNG. matplotlib is imported here alone: it is the slowest import of the benchmark."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    rows = [
        row for row in run.samples.rows.values() if row.compare and len(run.samples.summaries(row.key)) > 1
    ]
    figure, axes = pyplot.subplots(figsize=(11, 1.5 + 0.3 * max(len(rows), 1)))
    places = {row.key: len(rows) - index for index, row in enumerate(rows)}
    for number, name in enumerate(run.kinds):
        points = [
            (share, places[row.key]) for row in rows if (share := share_of_mark(run, row, name)) is not None
        ]
        kind = run.kinds[name]
        colour = COLOURS[kind] if kind != "peer" else pyplot.get_cmap("tab10")(number % 10)
        size, order = (90, 3) if name == SUBJECT else (36, 2)
        axes.scatter(
            [point[0] for point in points],
            [point[1] for point in points],
            label=name,
            color=colour,
            marker=MARKERS[number % len(MARKERS)],
            s=size,
            zorder=order,
            alpha=0.9,
        )
    axes.axvline(1.0, color=COLOURS["local"], linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(list(places.values()), [_label(row) for row in rows], fontsize=8)
    axes.set_xlabel("times as good as the local file system (rows without one: as the best contender)")
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.4, 1.0 + 0.6 / max(len(rows), 1) + 0.04), ncols=8, fontsize=8
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def share_of_mark(run: Run, row: Row, name: str) -> float | None:
    """How good a contender is against the local file system; against the best where that takes no part."""
    medians = {key: value.median for key, value in run.samples.summaries(row.key).items() if key in run.kinds}
    mark = LOCAL if LOCAL in medians else best(medians, row.better)
    if name not in medians or mark is None:
        return None
    share = advantage(medians[name], medians[mark], row.better)
    return None if share is None or not math.isfinite(share) else max(share, FLOOR)


def _label(row: Row) -> str:
    return f"{row.title}\n{row.cache}" if row.cache else row.title

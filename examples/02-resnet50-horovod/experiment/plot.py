"""The picture of the result: times beside their bounds, and the speed while the trainings go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from experiment.plan import Way
from experiment.tables import Column, Table, duration

COLOURS = {Way.STRAIGHT: "#9aa5b1", Way.COLD: "#5aa9e6", Way.WARM: "#0b6e4f"}
INK, PALE = "#1f2933", "#616e7c"
SMOOTHED_S = 2.0


def draw(tables: Sequence[Table], folder: Path, *, caption: str) -> None:
    """Writes `report.svg` and `report.png` into the folder."""
    plt.rcParams.update(
        {"font.family": "DejaVu Sans", "text.color": INK, "axes.labelcolor": INK, "svg.hashsalt": "1"}
    )
    figure, axes = plt.subplots(2, len(tables), figsize=(max(6.6 * len(tables), 11), 7.4), squeeze=False)
    for number, table in enumerate(tables):
        _times(axes[0][number], table)
        _speeds(axes[1][number], table)
    figure.suptitle(
        "ResNet-50 on Horovod: straight from storage, and through Headrace",
        x=0.012,
        ha="left",
        size=15,
        weight="bold",
    )
    figure.text(0.012, 0.012, caption, size=8, color=PALE)
    figure.tight_layout(rect=(0, 0.03, 1, 0.96), w_pad=3, h_pad=3)
    for kind in ("svg", "png"):
        figure.savefig(folder / f"report.{kind}", dpi=150, facecolor="white")
    plt.close(figure)


def _times(axes: Axes, table: Table) -> None:
    columns = table.columns
    names = [column.run.way.value for column in columns]
    times = [column.run.time_s for column in columns]
    bars = axes.barh(names, times, color=[COLOURS[column.run.way] for column in columns], height=0.6)
    axes.bar_label(bars, [_told(column) for column in columns], padding=6, size=9)
    for place, column in enumerate(columns):
        axes.plot([column.bound.time_s] * 2, [place - 0.38, place + 0.38], color=INK, linewidth=1.4)
    axes.invert_yaxis()
    axes.set_xlim(0, max(times) * 1.5)
    axes.set_xticks([])
    _clean(axes, "bottom")
    _title(axes, f"{table.title}: training time", "the line is max(compute, bytes / link); shorter is better")


def _told(column: Column) -> str:
    return f"{duration(column.run.time_s)}  ({column.excess:+.1%})"


def _speeds(axes: Axes, table: Table) -> None:
    for column in table.columns:
        ends_s = column.run.result["ends_s"]
        times_s, speeds = smoothed(ends_s, column.run.result["images_per_step"], SMOOTHED_S)
        axes.plot(times_s, speeds, color=COLOURS[column.run.way], label=column.run.way.value, linewidth=1.6)
    axes.set_ylim(0)
    axes.set_xlim(0)
    axes.set_xlabel("seconds of training", size=8)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    _clean(axes)
    _title(axes, f"{table.title}: images a second", f"mean over {SMOOTHED_S:g} seconds")


def smoothed(
    ends_s: Sequence[float], images_per_step: int, window_s: float
) -> tuple[list[float], list[float]]:
    """(moments, mean images a second over the window before each), one for each step."""
    speeds, first = [], 0
    for number, end_s in enumerate(ends_s):
        while end_s - ends_s[first] > window_s:
            first += 1
        since_s = ends_s[first - 1] if first else 0.0
        speeds.append(images_per_step * (number - first + 1) / max(end_s - since_s, 1e-9))
    return list(ends_s), speeds


def _clean(axes: Axes, *more: str) -> None:
    axes.tick_params(length=0, labelcolor=INK, labelsize=8)
    for side in ("top", "right", *more):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color("#cbd2d9")


def _title(axes: Axes, title: str, subtitle: str) -> None:
    axes.set_title(title, loc="left", size=12, weight="bold", pad=20)
    axes.text(0, 1.03, subtitle, transform=axes.transAxes, size=8, color=PALE)

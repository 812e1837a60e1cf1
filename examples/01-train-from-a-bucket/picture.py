"""The picture of the demo's result."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from experiment import COLD, LOCAL, S3FS, WARM, Row
from matplotlib.axes import Axes

from report import Report

COLOURS = {S3FS: "#9aa5b1", COLD: "#5aa9e6", WARM: "#0b6e4f", LOCAL: "#d9d3c7"}
INK, PALE = "#1f2933", "#616e7c"


def draw(report: Report, path: Path) -> None:
    """A PNG: accelerator use and bytes for the photos, and the time of the two trainings."""
    plt.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK, "axes.labelcolor": INK})
    figure, axes = plt.subplots(1, 3, figsize=(13.5, 4.4), width_ratios=(1.25, 1, 1.35))
    photos = [row for row in report.rows if row.accelerator_use is not None]
    trainings = [row for row in report.rows if row.accuracy is not None]
    _bars(axes[0], photos, [100 * (row.accelerator_use or 0) for row in photos], "{:.0f} %")
    _title(axes[0], "Accelerator use", "one emulated H100, ResNet-50, 110 KB photos; higher is better")
    _bars(axes[1], photos, [row.bucket_bytes / 1e9 for row in photos], "{:.2f} GB")
    _title(axes[1], "Read from the bucket", "for the same epoch; lower is better")
    _trainings(axes[2], trainings)
    _title(axes[2], "A real ResNet trained", "seconds with mounting and listing (accuracy)")
    figure.suptitle(
        "Training from a bucket: straight, and through Headrace", x=0.012, ha="left", size=15, weight="bold"
    )
    cache = f"page cache {'' if all(row.page_cache_dropped for row in report.rows) else 'not '}emptied before each run"
    cores = len(os.sched_getaffinity(0))
    link = f"storage link {report.link_bits_per_s // 10**6} Mbit/s · {cache} · {cores} cores"
    figure.text(0.012, 0.02, f"{link} · `make demo-bucket`", size=8, color=PALE)
    figure.tight_layout(rect=(0, 0.05, 1, 0.95), w_pad=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, facecolor="white")
    plt.close(figure)


def _bars(axes: Axes, rows: list[Row], values: list[float], label: str) -> None:
    names = [row.way for row in rows]
    bars = axes.barh(names, values, color=[COLOURS[name] for name in names], height=0.62)
    axes.bar_label(bars, [label.format(value) for value in values], padding=4, size=10, weight="bold")
    _clean(axes, max([*values, 1e-9]))


def _trainings(axes: Axes, rows: list[Row]) -> None:
    labels = [f"{row.way}\n{'files' if 'files' in row.workload else 'TFRecords'}" for row in rows]
    seconds = [row.ready_s + row.time_s for row in rows]
    # A gap between the two trainings.
    places = [number + 0.7 * ("files" not in row.workload) for number, row in enumerate(rows)]
    bars = axes.barh(places, seconds, color=[COLOURS[row.way] for row in rows], height=0.7)
    told = [f"{s:.0f} s  ({row.accuracy:.1%})" for s, row in zip(seconds, rows, strict=True)]
    axes.bar_label(bars, told, padding=4, size=9)
    axes.set_yticks(places, labels, size=8)
    _clean(axes, max([*seconds, 1e-9]))


def _clean(axes: Axes, largest: float) -> None:
    axes.invert_yaxis()
    axes.set_xlim(0, largest * 1.35)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color("#cbd2d9")


def _title(axes: Axes, title: str, subtitle: str) -> None:
    axes.set_title(title, loc="left", size=12, weight="bold", pad=20)
    axes.text(0, 1.03, subtitle, transform=axes.transAxes, size=8, color=PALE)

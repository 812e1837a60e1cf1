"""What the demo found: as JSON, and as a table in the manner of the articles that it answers."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from experiment import Experiment, Row
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Report:
    """A finished experiment with what is needed to judge it."""

    experiment: Experiment
    scale: float
    link_bits_per_s: int
    disagreements: list[str]
    elapsed_s: float

    @property
    def rows(self) -> list[Row]:
        return self.experiment.rows

    def notes(self) -> list[str]:
        """What a reader must know beside the numbers."""
        dropped = all(row.page_cache_dropped for row in self.rows)
        cache = (
            "emptied before each run"
            if dropped
            else "NOT emptied between runs (not root): warm runs are flattered"
        )
        warmed = ", ".join(f"{name}: {seconds:.1f} s" for name, seconds in self.experiment.warm_s.items())
        link = f"{self.link_bits_per_s // 10**6} Mbit/s, {self.experiment.storage.describe_link()}"
        return [
            f"Link: {link}. Page cache: {cache}.",
            f"`headrace warm` before the warm runs (completing what the cold runs left): {warmed or 'not run'}.",
            "Ready: from the mount command to the program's list of files. Read: all bytes that came over the link.",
            "Accelerator use as MLPerf Storage counts it: ResNet-50 on an H100, 400 images in 0.224 s.",
            "Accuracy after one epoch: of 10,000 test images, of 2,000 where they are files; same seed and order.",
        ]


def save(report: Report, path: Path) -> None:
    """Writes the JSON."""
    content = {
        "rows": [row.as_json() for row in report.rows],
        "warm_s": report.experiment.warm_s,
        "agreement": report.disagreements or "all ways read the same bytes and reach the same accuracy",
        "link_bits_per_s": report.link_bits_per_s,
        "scale": report.scale,
        "elapsed_s": report.elapsed_s,
        "notes": report.notes(),
        "commands": report.experiment.commands.shown,
        "machine": machine(),
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def print_table(report: Report) -> None:
    """The table to stdout, one block for each workload."""
    console = Console(width=max(Console().width, 120))
    for workload in dict.fromkeys(row.workload for row in report.rows):
        rows = [row for row in report.rows if row.workload == workload]
        console.print(_table(workload, rows))
    for note in report.notes():
        console.print(note, highlight=False)
    facts = machine()
    console.print(
        "Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()), highlight=False
    )


def _table(workload: str, rows: list[Row]) -> Table:
    table = Table(title=f"{workload}, {rows[0].images:,} images", title_justify="left")
    table.add_column("way")
    for heading in (
        "ready s",
        "time s",
        "images/s",
        "accelerator use",
        "read from bucket",
        "of it mounting",
        "requests",
        "accuracy",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        use = "" if row.accelerator_use is None else f"{row.accelerator_use:.1%}"
        accuracy = "" if row.accuracy is None else f"{row.accuracy:.2%}"
        numbers = (f"{row.ready_s:.1f}", f"{row.time_s:.1f}", f"{row.images_per_s:,.0f}", use)
        read, mounting = f"{row.bucket_bytes / 1e6:,.1f} MB", f"{row.mount_bytes / 1e6:,.1f} MB"
        costs = (read, mounting, f"{row.bucket_requests:,}", accuracy)
        table.add_row(row.way, *numbers, *costs)
    return table


def machine() -> dict[str, str]:
    """The machine and the versions that the numbers belong to."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": f"{_processor()} × {len(os.sched_getaffinity(0))}",
        "memory": f"{memory_gib:.0f} GiB",
        "kernel": platform.release(),
        "Python": sys.version.split()[0],
        "TensorFlow": _version("tensorflow-cpu"),
        "Headrace": _version("headrace"),
        "s3fs": _first_line("s3fs", "--version"),
        "load before": f"{os.getloadavg()[2]:.1f} (15 minutes)",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _first_line(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError):
        return "not installed"

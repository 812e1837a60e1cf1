"""The report: JSON with all that was measured, and a page of HTML that needs nothing beside it."""

from __future__ import annotations

import html
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from resnet50.accelerators import TABLE

from experiment.plan import Plan
from experiment.runs import Run
from experiment.tables import Table, savings

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 76rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 2rem }
caption { text-align: left; font-weight: 700; padding: .3rem 0 }
th, td { text-align: right; padding: .3rem .8rem; border-bottom: 1px solid #e4e7eb; white-space: nowrap }
th:first-child, td:first-child { text-align: left } td:nth-child(odd):not(:first-child) { color: #616e7c }
svg { max-width: 100%; height: auto } code, pre { background: #f5f7fa; padding: .1rem .3rem } pre { overflow-x: auto }
"""


@dataclass(frozen=True)
class Report:
    """A finished experiment with what is needed to judge it."""

    plan: Plan
    tables: Sequence[Table]
    runs: Sequence[Run]
    disagreements: Sequence[str]
    commands: Sequence[str]
    link: str
    training_bytes: int
    elapsed_s: float

    def notes(self) -> list[str]:
        """What a reader must know beside the numbers."""
        plan = self.plan
        emulated = TABLE[plan.accelerator]
        dropped = all(run.page_cache_dropped for run in self.runs)
        ranks = {run.result["ranks"] // run.shape.machines for run in self.runs}
        cache = "emptied" if dropped else "NOT emptied (not root): all but the first run are flattered"
        return [
            f"Accelerators are EMULATED {emulated.title} ({emulated.source}), {plan.slowdown:g} times slower: "
            f"a step of {plan.batch_size} images takes each {plan.step_s:.3f} s. Reading, tf.data, "
            f"mpirun and Horovod are real; {' or '.join(map(str, sorted(ranks)))} rank(s) on each machine "
            "drive its accelerators.",
            f"Accuracy @ 5 is measured: a small ResNet is trained, by Horovod over all ranks, on {plan.sample_images} "
            "image(s) of each accelerator's batch.",
            f"Data: {plan.data.images:,} photographs in {plan.data.shards} TFRecord files, "
            f"{self.training_bytes / 1e6:,.0f} MB; all of them are trained {_epochs(plan)}, "
            "each rank reading all files in its own order.",
            f"Storage: an S3 server (versitygw) behind {plan.link_bits_per_s / 1e6:,.0f} Mbit/s: {self.link}. "
            f"Page cache {cache} before each run.",
            "Bound: max(compute, bytes / link), where s3fs needs the bytes of all images trained, Headrace each byte "
            "once, and warm none.",
            "Training time: from the first batch that is asked for to the end of the last step; starting TensorFlow is "
            "in no way's time. The speed at a step is the mean over the twentieth of the training before it.",
        ]


def _epochs(plan: Plan) -> str:
    """`8 times on 1x8 and 14 times on 4x8`."""
    return " and ".join(f"{shape.epochs} times on {shape.name}" for shape in plan.shapes)


def save(report: Report, folder: Path, picture_svg: str) -> None:
    """Writes `report.json` and `report.html`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(content_of(report), indent=1) + "\n")
    (folder / "report.html").write_text(page_of(report, picture_svg))


def content_of(report: Report) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "tables": {table.title: _columns(table) for table in report.tables},
        "savings": [text for table in report.tables for text in savings(table)],
        "runs": [run.as_json() for run in report.runs],
        "agreement": list(report.disagreements) or "all ways read the same bytes and reach the same accuracy",
        "plan": {
            **asdict(report.plan),
            "step_s": report.plan.step_s,
            "training_bytes": report.training_bytes,
        },
        "notes": report.notes(),
        "commands": list(report.commands),
        "machine": machine(),
        "elapsed_s": report.elapsed_s,
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def page_of(report: Report, picture_svg: str) -> str:
    """The page; `picture_svg` is put into it as it is."""
    picture = picture_svg[picture_svg.find("<svg") :]
    tables = "\n".join(_html_table(table) for table in report.tables)
    said = [text for table in report.tables for text in savings(table)]
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>ResNet-50 through Headrace</title><style>{STYLE}</style>
<h1>ResNet-50 on Horovod: straight from storage, and through Headrace</h1>
{_list(said)}
{tables}
{picture}
<h2>What the numbers are</h2>
{_list(report.notes())}
<p>{html.escape(facts)}</p>
<h2>What was typed</h2>
<pre>{html.escape(chr(10).join(report.commands))}</pre>
</html>
"""


def _columns(table: Table) -> list[dict[str, Any]]:
    return [
        {
            "way": column.run.way.value,
            "training_time_s": column.run.time_s,
            "bound_s": column.bound.time_s,
            "excess": column.excess,
            "marked_step": table.marked_step,
            "speed_at_marked_step": column.speed_at_mark,
            "speed_at_last_step": column.speed_at_end,
            "bound_images_per_s": column.bound.images_per_s,
            "steps": column.run.result["steps"],
            "accuracy_5": column.run.result["accuracy_5"],
            "link_bytes": column.run.link_bytes,
        }
        for column in table.columns
    ]


def _html_table(table: Table) -> str:
    head, *rows = table.rows()
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><caption>{table.title}</caption><tr>{cells}</tr>{body}</table>"


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"


def machine() -> dict[str, str]:
    """The machine and the versions that the numbers belong to."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": f"{_processor()} × {len(os.sched_getaffinity(0))}",
        "memory": f"{memory_gib:.0f} GiB",
        "kernel": platform.release(),
        "Python": sys.version.split()[0],
        "Headrace": _version("headrace"),
        "Open MPI": _first_line("mpirun", "--version"),
        "s3fs": _first_line("s3fs", "--version"),
        "load": f"{os.getloadavg()[2]:.1f} (15 minutes)",
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

"""The report as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.promises import Outcome
from benchmarks.report import figures
from benchmarks.report.record import SUBJECT, Run, ratios

INTRODUCTION = """\
Written by the benchmark itself; do not edit. `benchmarks/README.md` says how to run it and how to read it.

All contenders read the same bytes from the same server in one run, in turn (A B C, B C A, …). A figure is the median
of its repetitions with the smallest and the largest in brackets; a ratio above 1 means that Headrace is better, whether
more or less of the unit is good. *Page cache cold* means that the kernel's page, dentry and inode caches were dropped
just before: what a contender keeps on disk or in its own memory stays."""


def write_markdown(run: Run, path: Path, *, plot: str) -> None:
    """The page; `plot` is the picture's name relative to it."""
    path.write_text("\n".join(_lines(run, plot)) + "\n")


def _lines(run: Run, plot: str) -> Iterator[str]:
    yield from ("# Benchmarks", "", INTRODUCTION, "")
    yield from _machine(run)
    yield from ("## Headrace against the local file system and the best peer", "", f"![ratios]({plot})", "")
    yield from _headrace(run)
    yield from ("## Promises", "")
    yield from _verdicts(run.promises())
    yield from (
        "",
        "At least twice the best peer, on every row where the local file system leaves that room:",
        "",
    )
    yield from _verdicts(run.against_peers())
    yield from ("", "## All contenders (medians)", "")
    yield from _everyone(run)
    yield from _reasons(run)
    yield from _histograms(run)
    yield from ("", "## How each was run", "")
    yield from (f"- {name}: `{command}`" for name, command in run.samples.commands.items())


def _machine(run: Run) -> Iterator[str]:
    yield from ("## Machine, versions, command", "")
    yield from (f"- {name.replace('_', ' ')}: {value}" for name, value in run.facts.items())
    yield f"- page cache: {run.cache_note()}"
    yield f"- command: `{run.command}` ({run.scale.name}), {run.seconds / 60:.1f} minutes, ended {run.ended_at}"
    yield f"- data: {run.scale.data_bytes() / 2**30:.1f} GiB"
    yield f"- data of the cluster: {run.scale.cluster_bytes() / 2**30:.2f} GiB, read by each node"
    yield f"- limited link: {run.scale.link_bits_per_s / 1e6:,.0f} Mbit/s"
    yield f"- links of the cluster: {run.scale.cluster_link_bits_per_s / 1e6:,.0f} Mbit/s"
    yield from (f"- {name}: {version}" for name, version in run.versions.items())
    yield from (f"- left out: {name} ({reason})" for name, reason in run.left_out.items())
    yield ""


def _headrace(run: Run) -> Iterator[str]:
    cells = []
    for row in run.samples.rows.values():
        known = run.samples.summaries(row.key)
        if SUBJECT not in known:
            continue
        local = figures.summary(known["local"]) if "local" in known else "–"
        comparison = figures.comparison(ratios(run, row, SUBJECT))
        cells.append((row.title, row.cache, row.unit, figures.summary(known[SUBJECT]), local, comparison))
    yield from table(("workload", "caches", "unit", "headrace", "local", "headrace is"), cells)
    yield ""


def _everyone(run: Run) -> Iterator[str]:
    names = run.samples.contenders()
    cells = []
    for row in run.samples.rows.values():
        known = run.samples.summaries(row.key)
        medians = [figures.number(known[name].median) if name in known else "–" for name in names]
        cells.append((row.title, row.cache, row.unit, *medians))
    yield from table(("workload", "caches", "unit", *names), cells)


def _reasons(run: Run) -> Iterator[str]:
    found = [
        f"- {run.samples.rows[key].title}: {name}: {reason}"
        for key, by_name in run.samples.reasons.items()
        for name, reason in by_name.items()
    ]
    if found:
        yield from ("", "Why a figure is missing:", "", *found)


def _histograms(run: Run) -> Iterator[str]:
    for title, buckets in run.samples.histograms.items():
        yield from ("", f"## {title}", "")
        yield from table(("below", "count"), [(bucket, f"{count:,}") for bucket, count in buckets.items()])


def _verdicts(outcomes: Sequence[Outcome]) -> Iterator[str]:
    cells = [
        (
            one.text,
            one.wanted,
            "–" if one.figure is None else figures.number(one.figure),
            one.verdict.value,
            one.note,
        )
        for one in outcomes
    ]
    yield from table(("promise", "wanted", "measured", "verdict", "note"), cells)


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table; bars inside cells are escaped."""
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for cells in lines:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"

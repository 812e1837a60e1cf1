"""The tables on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.promises import Outcome, Verdict
from benchmarks.report import figures
from benchmarks.report.record import SUBJECT, Run, ratios

# Wide enough for every contender in a file or a log.
FILE_WIDTH = 220
COLOURS = {Verdict.REACHED: "green", Verdict.NOT_REACHED: "red", Verdict.NOT_MEASURED: "yellow"}


def print_tables(run: Run, console: Console | None = None) -> None:
    """Figures, promises, and the comparison with the best peer."""
    shown = console or Console(width=None if sys.stdout.isatty() else FILE_WIDTH)
    shown.print(figures_table(run))
    shown.print(verdicts_table("Promises", run.promises()))
    if against := run.against_peers():
        shown.print(
            verdicts_table("At least twice the best peer, where the local file system leaves room", against)
        )
    for name, reason in run.left_out.items():
        shown.print(f"left out: {name} ({reason})")


def figures_table(run: Run) -> Table:
    """One line a row, one column a contender, and how Headrace stands."""
    contenders = run.samples.contenders()
    table = Table(
        title=f"Medians of up to {run.scale.repetitions} ({run.scale.name}); page cache {run.cache_note()}"
    )
    table.add_column("workload", max_width=44)
    table.add_column("unit")
    for name in contenders:
        table.add_column(name, justify="right")
    table.add_column(f"{SUBJECT} is")
    for row in run.samples.rows.values():
        known = run.samples.summaries(row.key)
        title = f"{row.title} [dim]{row.cache}[/dim]" if row.cache else row.title
        cells = [figures.number(known[name].median) if name in known else "–" for name in contenders]
        table.add_row(title, row.unit, *cells, figures.comparison(ratios(run, row, SUBJECT)))
    return table


def verdicts_table(title: str, outcomes: Sequence[Outcome]) -> Table:
    """One line for each promise."""
    table = Table(title=title)
    for heading in ("promise", "wanted", "measured", "verdict", "note"):
        table.add_column(heading, justify="right" if heading == "measured" else "left")
    for outcome in outcomes:
        figure = "–" if outcome.figure is None else figures.number(outcome.figure)
        verdict = f"[{COLOURS[outcome.verdict]}]{outcome.verdict.value}[/]"
        table.add_row(outcome.text, outcome.wanted, figure, verdict, outcome.note)
    return table

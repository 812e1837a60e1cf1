"""The experiment of the seeds on one machine: ResNet-50 on 4x8 accelerators (and on 1x8), straight, cold and warm.

`make demo` runs it on 4x8: it shows the first comparison after less than three minutes, ends after about four and
leaves nothing behind but demo-report/. On 1x8, where the link feeds all ways (`--shape 1x8`), it takes seven more.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiment import cleaning, cluster, plot, report, storage
from experiment.commands import Commands
from experiment.data import Data
from experiment.making import make_data_with
from experiment.plan import Plan, Way, bench_plan, demo_plan
from experiment.progress import elapsed_s, say, say_sometimes
from experiment.runs import Run
from experiment.tables import disagreements, savings, table_of, text_of
from experiment.ways import HOROVOD, Experiment

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / ".cache" / "demo"


def main() -> int:
    """Runs it; 1 when ways disagree that must not."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if not (HOROVOD / "bin" / "python").exists():
        sys.exit("run.py: Horovod is not there; run `make horovod`, or `make demo`, which does")
    plan = _plan(arguments)
    for folder in cleaning.remove_leftovers(CACHE):
        say(f"removed {folder}, left by an experiment that was killed")
    progress = say_sometimes()
    say(f"making {plan.data.images:,} photographs in {plan.data.shards} TFRecord files (once)")
    data = make_data_with(
        HOROVOD / "bin" / "python",
        plan.data,
        CHECKOUT / ".cache" / "data",
        report=lambda done, of: progress(f"{done} of {of} files"),
    )
    try:
        runs, commands, link = _measure(plan, data)
    except KeyboardInterrupt:
        say("interrupted; all that was made is removed")
        return 128 + signal.SIGINT
    tables = [table_of(plan, shape, runs, training_bytes=data.training_bytes) for shape in plan.shapes]
    found = [text for table in tables for text in disagreements(table)]
    made = report.Report(plan, tables, runs, found, commands, link, data.training_bytes, elapsed_s())
    _tell(made, arguments.report)
    return 1 if found else 0


def _measure(plan: Plan, data: Data) -> tuple[list[Run], list[str], str]:
    """(runs, the commands that were typed, what the link is). Nothing is left behind, however it ends."""
    with (
        cleaning.work_folders(CACHE) as (work, caches),
        storage.serve(data, work, rate_bits_per_s=plan.link_bits_per_s) as served,
        cluster.up(Commands(work / cleaning.STATE), work, nodes=plan.nodes) as nodes,
    ):
        say(f"serving s3://imagenet at {served.server.endpoint}, {plan.link_bits_per_s / 1e6:,.0f} Mbit/s")
        experiment = Experiment(plan, nodes, served, caches, say)
        runs: list[Run] = []
        for run in (run for shape in plan.shapes for run in experiment.run(shape)):
            runs.append(run)
            _tell_first(plan, run, runs, data)
        return runs, nodes.commands.shown, served.describe_link()


def _tell_first(plan: Plan, run: Run, runs: list[Run], data: Data) -> None:
    """Prints what is there to compare already while the last way of a shape still runs."""
    if run.way is Way.COLD:
        table = table_of(plan, run.shape, runs, training_bytes=data.training_bytes)
        print(f"\n{text_of(table)}\n", "\n".join(savings(table)), sep="\n", flush=True)


def _tell(made: report.Report, folder: Path) -> None:
    """Writes the report, and prints the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    plot.draw(made.tables, folder, caption=_caption(made.plan, made.runs))
    report.save(made, folder, (folder / "report.svg").read_text())
    for table in made.tables:
        print(f"\n{text_of(table)}")
    print()
    for text in [*(text for table in made.tables for text in savings(table)), *made.notes()]:
        print(text)
    say(f"{folder.name}/report.html, report.json, report.svg and report.png hold the same")
    for text in made.disagreements:
        say(f"DISAGREEMENT: {text}")


def _caption(plan: Plan, runs: Sequence[Run]) -> str:
    cache = "emptied" if all(run.page_cache_dropped for run in runs) else "NOT emptied"
    return (
        f"accelerators EMULATED ({plan.accelerator}, {plan.slowdown:g} times slower) · storage link "
        f"{plan.link_bits_per_s / 1e6:,.0f} Mbit/s · page cache {cache} before each run · "
        f"{len(os.sched_getaffinity(0))} cores · `make demo`"
    )


def _plan(arguments: argparse.Namespace) -> Plan:
    plan = bench_plan() if arguments.long else demo_plan(arguments.scale)
    shapes = tuple(shape for shape in plan.shapes if arguments.shape in ("all", shape.name))
    return replace(plan, shapes=shapes)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=float(os.environ.get("HEADRACE_DEMO_SCALE", "1")),
                        help="how long the trainings are; 0.2 for a try (HEADRACE_DEMO_SCALE)")  # fmt: skip
    parser.add_argument("--long", action="store_true", help="four times the data, half an hour")
    parser.add_argument("--shape", choices=("4x8", "1x8", "all"), default="4x8",
                        help="which table: 4x8 alone if nothing is said")  # fmt: skip
    parser.add_argument("--report", type=Path, help="where the report goes (HEADRACE_DEMO_REPORT)",
                        default=Path(os.environ.get("HEADRACE_DEMO_REPORT", CHECKOUT / "demo-report")))  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

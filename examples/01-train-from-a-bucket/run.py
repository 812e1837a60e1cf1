"""The demo: train from a bucket straight, through a cold Headrace and through a warm one, and compare.

`make demo-bucket` runs it: nobody need watch, it ends within ten minutes and leaves nothing behind but demo-report/.
HEADRACE_DEMO_SCALE=0.1 makes it shorter; HEADRACE_DEMO_WAYS names some of the ways, split by commas.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from cleaning import remove_leftovers, work_folder
from experiment import COLD, LOCAL, S3FS, WARM, Experiment, Sizes, disagreements, workloads
from picture import draw
from progress import elapsed_s, say
from storage import make_data, serve
from ways import Commands

import report

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / ".cache" / "demo"
REPORT = Path(os.environ.get("HEADRACE_DEMO_REPORT", CHECKOUT / "demo-report"))
# Half of what one H100 asks for would be 800 Mbit/s; a shared storage server seldom gives one node that.
LINK_BITS_PER_S = 500_000_000
WAYS = (S3FS, COLD, WARM, LOCAL)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    scale = float(os.environ.get("HEADRACE_DEMO_SCALE", "1"))
    sizes = Sizes.scaled(scale)
    chosen = tuple(
        name for name in os.environ.get("HEADRACE_DEMO_WAYS", ",".join(WAYS)).split(",") if name in WAYS
    )
    remove_leftovers(CACHE)
    data = make_data(CHECKOUT / ".cache" / "data", photos=sizes.photos)
    with work_folder(CACHE) as (work, caches), serve(data, work, rate_bits_per_s=LINK_BITS_PER_S) as storage:
        say(
            f"serving s3:// at {storage.server.endpoint}: {storage.describe_link()}, {LINK_BITS_PER_S // 10**6} Mbit/s"
        )
        experiment = Experiment(storage, Commands(storage.server, work, caches, []), caches, [], {})
        for workload in workloads(data, sizes):
            experiment.run(workload, chosen)
        found = disagreements(experiment.rows)
        made = report.Report(experiment, scale, LINK_BITS_PER_S, found, elapsed_s())
        report.save(made, REPORT / "report.json")
    draw(made, REPORT / "report.png")
    report.print_table(made)
    say(f"table above; {REPORT.name}/report.json and {REPORT.name}/report.png hold the same")
    for text in found:
        say(f"DISAGREEMENT: {text}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

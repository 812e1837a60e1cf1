"""The command: `python -m benchmarks.simulation.run`. Prints Markdown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.simulation import master, placement


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=10_000)
    parser.add_argument("--blocks", type=int, default=100_000_000)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--only", choices=("placement", "master"))
    given = parser.parse_args(words)
    if given.only != "placement":
        sizes = sorted({min(size, given.workers) for size in (10, 1000, given.workers)})
        print(*master.tables([master.measure(size) for size in sizes]), sep="\n", end="\n\n")
    if given.only != "master":
        print(*placement.tables(placement.simulate(given.workers, given.blocks, given.replicas)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

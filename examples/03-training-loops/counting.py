"""What a program can ask of its data: how much is cached, what came from where, and how long it will take."""

from __future__ import annotations

import argparse
import sys

import headrace


def show(dataset: headrace.Dataset) -> None:
    """Prints the figures that matter."""
    report = dataset.status()
    reads = report.reads
    print(f"cached         {report.cached_share or 0:.1%} of {report.snapshot.bytes:,} bytes")
    print(f"hit ratio      {'-' if reads.hit_ratio is None else f'{reads.hit_ratio:.1%}'}")
    print(f"from storage   {reads.origin_bytes:,} bytes in {reads.origin_requests:,} requests")
    print(f"by the kernel  some {reads.passthrough_estimated_bytes:,} bytes")
    for budget in report.budgets:
        if budget.waits:
            print(
                f"waited         {budget.waits:,} times for {budget.name} (limit {budget.limit:,})",
                file=sys.stderr,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="s3://bucket/prefix, a folder, or a mountpoint of Headrace")
    parser.add_argument("--cache", help="FOLDER:QUOTA; leave it out for a mountpoint")
    arguments = parser.parse_args()
    with headrace.open_dataset(arguments.data, cache=arguments.cache) as dataset:
        show(dataset)


if __name__ == "__main__":
    main()

"""Epochs of several nodes at once: who reads what, how long it takes, and what it costs. Knows no contender."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.testing.cluster import Node
from headrace.testing.cluster.reader import Summary
from headrace.testing.cluster.reading import Reading
from headrace.testing.processes import processor_seconds

GIGABYTE = 1e9
LOADERS = 2
"""Processes that read on each node."""
THREADS = 8
"""Files that each of them reads at once: a node has as many reads under way as an input pipeline of 16 workers."""
LEAD_S = 1.0
LEAD_OF_A_READER_S = 0.1
"""Readers begin together, as the ranks of a job do: an interpreter needs this long to start on a core of its own."""


@dataclass(frozen=True)
class Epoch:
    """One epoch of all readers together."""

    seconds: float
    summaries: Sequence[Summary]

    @property
    def size_bytes(self) -> int:
        return sum(summary.size_bytes for summary in self.summaries)

    @property
    def longest_wait_s(self) -> float:
        return max(summary.longest_wait_s for summary in self.summaries)

    @property
    def errors(self) -> int:
        return sum(summary.errors for summary in self.summaries)

    def waits(self) -> dict[str, int]:
        """How many opens and reads took how long."""
        buckets: dict[int, int] = {}
        for summary in self.summaries:
            for bucket, count in summary.waits.items():
                buckets[bucket] = buckets.get(bucket, 0) + count
        return {_bound(bucket): buckets[bucket] for bucket in sorted(buckets)}


def start_epoch(trees: Sequence[tuple[Node, Path]], *, flags: Sequence[str] = ()) -> list[Reading]:
    """Readers for each node and tree, as many as a data loader has; each node has an order of its own. Hash nothing."""
    return [
        Reading(
            node,
            tree,
            *("--no-hash", "--drop", "--threads", str(THREADS)),
            *("--seed", str(number), "--part", f"{part}/{LOADERS}"),
            *flags,
        )
        for number, (node, tree) in enumerate(trees)
        for part in range(LOADERS)
    ]


def run_epoch(trees: Sequence[tuple[Node, Path]], *, limit_s: float, size_bytes: int) -> Epoch:
    """Reads everything everywhere; OSError for a read that failed, TimeoutError after `limit_s`."""
    start = time.monotonic() + LEAD_S + LEAD_OF_A_READER_S * LOADERS * len(trees)
    readings = start_epoch(trees, flags=("--start-at", repr(start)))
    done = finish_epoch(readings, start, limit_s=limit_s)
    if done.errors or done.size_bytes != size_bytes * len(trees):
        raise OSError(
            f"{done.errors} reads failed; {done.size_bytes} of {size_bytes * len(trees)} bytes were read"
        )
    return done


def finish_epoch(readings: Sequence[Reading], start: float, *, limit_s: float) -> Epoch:
    """Waits for readers that were started at `start`, by `time.monotonic`."""
    deadline = start + limit_s
    summaries = [reading.finish(timeout_s=max(1.0, deadline - time.monotonic())) for reading in readings]
    # The slowest reader's own time: starting an interpreter is not part of an epoch.
    return Epoch(max(summary.seconds for summary in summaries), summaries)


class Cost:
    """Processor seconds of some processes, from now until asked."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = list(pids)
        self._before = processor_seconds(self._pids)

    def seconds_per_gigabyte(self, done: Epoch) -> float:
        """With the readers' own time."""
        used = processor_seconds(self._pids) - self._before
        return (used + sum(summary.processor_s for summary in done.summaries)) / done.size_bytes * GIGABYTE


def _bound(bucket: int) -> str:
    """Bucket N holds waits below 2^N microseconds."""
    microseconds = 2**bucket
    if microseconds >= 1_000_000:
        return f"{microseconds / 1e6:.1f} s"
    return f"{microseconds / 1000:.1f} ms" if microseconds >= 1000 else f"{microseconds} µs"

"""Reads, small files and stat of data that the contender holds already; page cache cold and hot.

All are mounted at once and measured in turn, so that a disturbance of the machine meets all of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import rows
from benchmarks.contenders import Contender, Mounted
from benchmarks.data import SMALL, large_paths, small_paths
from benchmarks.machine import drop_caches
from benchmarks.samples import Row
from benchmarks.session import Session
from benchmarks.workloads import reads
from benchmarks.workloads.names import walk_seconds

READ_ROWS = (
    *(rows.SEQUENTIAL_COLD, rows.SEQUENTIAL_HOT, rows.RANDOM_4K_COLD, rows.RANDOM_4K_HOT),
    *(rows.RANDOM_128K_COLD, rows.RANDOM_128K_HOT, rows.MMAP_COLD, rows.MMAP_HOT),
)
FILE_ROWS = (rows.SMALL_FIRST, rows.SMALL_AGAIN, rows.SMALL_THREADS, rows.STAT_COLD, rows.STAT_HOT, rows.WALK)
WARMING_THREADS = 4
LOADER_THREADS = 8


@dataclass(frozen=True)
class Stand:
    """One contender with its tree, measured in one repetition."""

    session: Session
    contender: Contender
    tree: Path
    repetition: int

    def measure(self, row: Row, figure: Callable[[], float]) -> None:
        """Adds one figure, unless the contender has failed at this row already."""
        samples = self.session.samples
        if samples.gave_up(row, self.contender.name):
            return
        with self.session.attempt(self.contender, row):
            samples.add(row, self.contender.name, figure())


def run(session: Session) -> None:
    """Every row of this group, for every contender that mounts."""
    with contextlib.ExitStack() as mounts:
        trees = [
            (contender, tree)
            for contender in session.contenders
            if (tree := _mount(session, mounts, contender))
        ]
        os.sync()
        for repetition, (contender, tree) in session.repeated(trees):
            session.say(f"warm reads {repetition + 1}/{session.scale.repetitions}: {contender.name}")
            stand = Stand(session, contender, tree.directory, repetition)
            _large_files(stand)
            _small_files(stand)


def _mount(session: Session, mounts: contextlib.ExitStack, contender: Contender) -> Mounted | None:
    with session.attempt(contender, *READ_ROWS, *FILE_ROWS):
        session.say(f"mounting and warming {contender.name}")
        tree = mounts.enter_context(session.mounted(contender, session.source(), "warm"))
        if tree.warm(session.scale.warm_limit_s * 4) is None:
            _read_through(session, tree.directory)
        return tree
    return None


def _read_through(session: Session, tree: Path) -> None:
    """What a user of a peer does to warm it: reads what will be read. Bounded; the small files may not all fit in."""
    scale, loop = session.scale, session.loop
    loop.run(
        "sequential", large_paths(tree, scale), seconds=scale.warm_limit_s, threads=1, block_bytes=1 << 20
    )
    small = small_paths(tree, scale.loop_files)
    done = loop.run("read", small, seconds=scale.warm_limit_s, threads=WARMING_THREADS)
    if done.operations < len(small):
        session.say(
            f"  only {done.operations} of {len(small)} small files read within {scale.warm_limit_s:g} s"
        )


def _large_files(stand: Stand) -> None:
    loop, scale = stand.session.loop, stand.session.scale
    files = large_paths(stand.tree, scale)

    def random(block_bytes: int) -> float:
        return reads.random_reads_per_s(
            files, block_bytes=block_bytes, seconds=scale.loop_s, seed=stand.repetition
        )

    def cold(row: Row, read: Callable[[], float]) -> None:
        if not stand.session.samples.gave_up(row, stand.contender.name) and drop_caches():
            stand.measure(row, read)

    cold(rows.MMAP_COLD, lambda: reads.mmap_mib_per_s(loop, files, seconds=scale.cold_limit_s, repeat=False))
    cold(rows.RANDOM_4K_COLD, lambda: random(4096))
    cold(rows.RANDOM_128K_COLD, lambda: random(131_072))
    cold(
        rows.SEQUENTIAL_COLD,
        lambda: reads.sequential_mib_per_s(loop, files, seconds=scale.cold_limit_s, repeat=False),
    )
    stand.measure(
        rows.SEQUENTIAL_HOT,
        lambda: reads.sequential_mib_per_s(loop, files, seconds=scale.loop_s, repeat=True),
    )
    stand.measure(rows.MMAP_HOT, lambda: reads.mmap_mib_per_s(loop, files, seconds=scale.loop_s, repeat=True))
    stand.measure(rows.RANDOM_4K_HOT, lambda: random(4096))
    stand.measure(rows.RANDOM_128K_HOT, lambda: random(131_072))


def _small_files(stand: Stand) -> None:
    loop, scale = stand.session.loop, stand.session.scale
    # Another order each time, as in shuffled epochs, but the same for every contender.
    files = small_paths(stand.tree, scale.loop_files, seed=stand.repetition)
    every = small_paths(stand.tree, scale.small_files)
    if drop_caches():
        stand.measure(
            rows.SMALL_FIRST, lambda: loop.run("read", files, seconds=scale.cold_limit_s).operations_per_s
        )
    stand.measure(
        rows.SMALL_AGAIN, lambda: loop.run("read", files, seconds=scale.loop_s, passes=0).operations_per_s
    )
    stand.measure(
        rows.SMALL_THREADS,
        lambda: (
            loop.run("read", files, seconds=scale.loop_s, passes=0, threads=LOADER_THREADS).operations_per_s
        ),
    )
    if drop_caches():
        stand.measure(
            rows.STAT_COLD, lambda: loop.run("stat", every, seconds=scale.cold_limit_s).operations_per_s
        )
    stand.measure(
        rows.STAT_HOT, lambda: loop.run("stat", every, seconds=scale.loop_s, passes=0).operations_per_s
    )
    if drop_caches():
        stand.measure(
            rows.WALK,
            lambda: walk_seconds(
                stand.tree / SMALL, entries=scale.small_files, limit_s=scale.listing_limit_s
            ),
        )

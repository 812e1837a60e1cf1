"""Reads, small files and stat of data that the contender holds already; page cache cold and hot.

Large and small files are mounted apart, as datasets are: how best to mount follows from what is in one. All contenders
are mounted at once and measured in turn, group of rows by group of rows, so that a disturbance of the machine (or a
disk that gives more now than in a minute) meets all of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import rows
from benchmarks.contenders import Contender
from benchmarks.data import LARGE, SMALL, large_name, ordered, small_name
from benchmarks.machine import CACHES, FEW_BYTES, drop_caches
from benchmarks.samples import Row
from benchmarks.session import Session, in_turn
from benchmarks.settings import SMALL_FILE_BYTES, Scale
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
class Trees:
    """Where one contender shows the folder of large files, and where the folder of small ones."""

    large: Path
    small: Path

    def large_paths(self, scale: Scale) -> list[Path]:
        names = [large_name(index) for index in range(scale.large_files)]
        return [self.large / name.removeprefix(f"{LARGE}/") for name in names]

    def small_paths(self, count: int, *, seed: int | None = None) -> list[Path]:
        """The first `count` small files; in an order of their own when a seed is given, as a shuffled epoch reads."""
        names = [small_name(SMALL, index) for index in range(count)]
        return [self.small / name.removeprefix(f"{SMALL}/") for name in ordered(names, seed)]


@dataclass(frozen=True)
class Stand:
    """One contender with its two trees, measured in one repetition."""

    session: Session
    contender: Contender
    trees: Trees
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
        mounted = [
            (contender, trees)
            for contender in session.contenders
            if (trees := _mount(session, mounts, contender))
        ]
        os.sync()
        for repetition, group in session.repeated(GROUPS):
            session.say(
                f"warm reads {repetition + 1}/{session.scale.repetitions}: {group.__name__.strip('_')}"
            )
            for contender, trees in in_turn(mounted, repetition):
                group(Stand(session, contender, trees, repetition))


def _mount(session: Session, mounts: contextlib.ExitStack, contender: Contender) -> Trees | None:
    with session.attempt(contender, *READ_ROWS, *FILE_ROWS):
        session.say(f"mounting and warming {contender.name}")
        large = mounts.enter_context(session.mounted(contender, session.source(LARGE), "warm-large"))
        small = mounts.enter_context(session.mounted(contender, session.source(SMALL), "warm-small"))
        trees = Trees(large.directory, small.directory)
        warmed = [tree.warm(session.scale.warm_limit_s * 4) for tree in (large, small)]
        if None in warmed:
            _read_through(session, trees)
        return trees
    return None


def _read_through(session: Session, trees: Trees) -> None:
    """What a user of a peer does to warm it: reads what will be read. Bounded; the small files may not all fit in."""
    scale, loop = session.scale, session.loop
    loop.run(
        "sequential", trees.large_paths(scale), seconds=scale.warm_limit_s, threads=1, block_bytes=1 << 20
    )
    small = trees.small_paths(scale.loop_files)
    done = loop.run("read", small, seconds=scale.warm_limit_s, threads=WARMING_THREADS)
    if done.operations < len(small):
        session.say(
            f"  only {done.operations} of {len(small)} small files read within {scale.warm_limit_s:g} s"
        )


def _cold(stand: Stand, row: Row, read: Callable[[], float], *, read_bytes: int = 0) -> None:
    """With the memory that so many bytes of files need."""
    memory_bytes = max(FEW_BYTES, CACHES * read_bytes)
    if not stand.session.samples.gave_up(row, stand.contender.name) and drop_caches(memory_bytes):
        stand.measure(row, read)


def _random(stand: Stand, block_bytes: int) -> float:
    scale = stand.session.scale
    files = stand.trees.large_paths(scale)
    return reads.random_reads_per_s(
        files, block_bytes=block_bytes, seconds=scale.loop_s, seed=stand.repetition
    )


def _cold_maps(stand: Stand) -> None:
    scale, loop = stand.session.scale, stand.session.loop
    files = stand.trees.large_paths(scale)
    _cold(
        stand,
        rows.MMAP_COLD,
        lambda: reads.mmap_mib_per_s(loop, files, seconds=scale.cold_limit_s, repeat=False),
        read_bytes=scale.large_files * scale.large_file_bytes,
    )


def _cold_pages(stand: Stand) -> None:
    _cold(stand, rows.RANDOM_4K_COLD, lambda: _random(stand, 4096))


def _cold_pieces(stand: Stand) -> None:
    _cold(stand, rows.RANDOM_128K_COLD, lambda: _random(stand, 131_072))


def _whole_files(stand: Stand) -> None:
    """Cold from end to end, which leaves the page cache hot for what follows."""
    scale, loop = stand.session.scale, stand.session.loop
    files = stand.trees.large_paths(scale)
    _cold(
        stand,
        rows.SEQUENTIAL_COLD,
        lambda: reads.sequential_mib_per_s(loop, files, seconds=scale.cold_limit_s, repeat=False),
        read_bytes=scale.large_files * scale.large_file_bytes,
    )
    stand.measure(
        rows.SEQUENTIAL_HOT,
        lambda: reads.sequential_mib_per_s(loop, files, seconds=scale.loop_s, repeat=True),
    )
    stand.measure(rows.MMAP_HOT, lambda: reads.mmap_mib_per_s(loop, files, seconds=scale.loop_s, repeat=True))
    stand.measure(rows.RANDOM_4K_HOT, lambda: _random(stand, 4096))
    stand.measure(rows.RANDOM_128K_HOT, lambda: _random(stand, 131_072))


def _small_files(stand: Stand) -> None:
    scale, loop = stand.session.scale, stand.session.loop
    # Another order each time, as in shuffled epochs, but the same for every contender.
    files = stand.trees.small_paths(scale.loop_files, seed=stand.repetition)

    def again(threads: int) -> float:
        return loop.run("read", files, seconds=scale.loop_s, passes=0, threads=threads).operations_per_s

    _cold(
        stand,
        rows.SMALL_FIRST,
        lambda: loop.run("read", files, seconds=scale.cold_limit_s).operations_per_s,
        read_bytes=len(files) * SMALL_FILE_BYTES,
    )
    stand.measure(rows.SMALL_AGAIN, lambda: again(1))
    stand.measure(rows.SMALL_THREADS, lambda: again(LOADER_THREADS))


def _names(stand: Stand) -> None:
    scale, loop = stand.session.scale, stand.session.loop
    every = stand.trees.small_paths(scale.small_files)
    _cold(stand, rows.STAT_COLD, lambda: loop.run("stat", every, seconds=scale.cold_limit_s).operations_per_s)
    stand.measure(
        rows.STAT_HOT, lambda: loop.run("stat", every, seconds=scale.loop_s, passes=0).operations_per_s
    )
    _cold(
        stand,
        rows.WALK,
        lambda: walk_seconds(stand.trees.small, entries=scale.small_files, limit_s=scale.listing_limit_s),
    )


GROUPS = (_cold_maps, _cold_pages, _cold_pieces, _whole_files, _small_files, _names)

"""Shuffled epochs with a cache of half the data: which share of each epoch the bucket is spared."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks import rows
from benchmarks.contenders import Contender
from benchmarks.data import EPOCH, epoch_paths
from benchmarks.machine import drop_caches, memory_of
from benchmarks.session import Session
from benchmarks.settings import MEBIBYTE, SMALL_FILE_BYTES

ROWS = (rows.EPOCH_HITS, rows.EPOCH_BYTES, rows.EPOCH_TIME)
LABEL = "epoch"
READERS = 2
# Over this share of the quota it was no quota: half the data cannot be compared with more than half.
TOLERATED_SHARE = 1.15
# For those who can be told; the least that Headrace accepts. Its default would hold the other half of so little data.
MEMORY_BYTES = 64 * MEBIBYTE
# An epoch that takes longer is cut off, and the contender left out: a part of an epoch has no hit ratio.
EPOCH_LIMIT_S = 40.0


def run(session: Session) -> None:
    """Every contender whose cache obeys a quota; one after the other, as each fills the disk differently."""
    for contender in session.contenders:
        if contender.obeys_quota:
            session.say(f"epochs with half the data cached: {contender.name}")
            with session.attempt(contender, *ROWS):
                _measure(session, contender)


def _measure(session: Session, contender: Contender) -> None:
    scale = session.scale
    data_bytes = scale.epoch_files * SMALL_FILE_BYTES
    half = data_bytes // 2
    source = session.source(EPOCH)
    with session.mounted(contender, source, LABEL, quota_bytes=half, memory_bytes=MEMORY_BYTES) as tree:
        idle = memory_of(tree.processes()).anonymous
        for epoch in range(scale.epochs):
            # Otherwise the page cache would hit where the contender's cache does not.
            drop_caches()
            before, start = session.link.received_bytes(), time.perf_counter()
            files = epoch_paths(tree.directory, scale.epoch_files, seed=epoch)
            done = session.loop.run("read", files, seconds=EPOCH_LIMIT_S, threads=READERS)
            elapsed = time.perf_counter() - start
            if done.operations < len(files):
                raise TimeoutError(f"an epoch took more than {EPOCH_LIMIT_S:g} s")
            fetched = session.link.received_bytes() - before
            disk = disk_bytes(session.work / "caches" / f"{LABEL}-{contender.name}")
            in_memory = max(0, memory_of(tree.processes()).anonymous - idle)
            session.say(
                f"  epoch {epoch + 1}: {fetched >> 20} of {data_bytes >> 20} MiB fetched; "
                f"{disk >> 20} MiB on disk, {in_memory >> 20} MiB more memory than at the start"
            )
            # The first epoch fills the cache: nothing can hit.
            check_held(disk, data_bytes - fetched if epoch else 0, half)
            if epoch > 0:
                _record(session, contender, fetched, data_bytes, elapsed)


def check_held(disk: int, hits: int, half_bytes: int) -> None:
    """OSError when a contender kept clearly more than half the data: its hits then say nothing about half.

    Both places count: a cache that obeys its quota on disk and keeps the rest in memory hits every time. Memory shows
    in the hits, not in the process's size, which is mostly buffers.
    """
    if disk > half_bytes * TOLERATED_SHARE:
        raise OSError(f"its cache took {disk >> 20} MiB of a quota of {half_bytes >> 20} MiB")
    if hits > half_bytes * TOLERATED_SHARE:
        known = f"{hits >> 20} MiB of hits with a cache of {half_bytes >> 20} MiB"
        raise OSError(f"{known}: memory served what the cache did not hold")


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def _record(session: Session, contender: Contender, fetched: int, data_bytes: int, seconds: float) -> None:
    hits = max(0.0, 1 - fetched / data_bytes) * 100
    session.samples.add(rows.EPOCH_HITS, contender.name, hits)
    session.samples.add(rows.EPOCH_BYTES, contender.name, fetched / MEBIBYTE)
    session.samples.add(rows.EPOCH_TIME, contender.name, seconds)

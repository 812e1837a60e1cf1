"""Shuffled epochs with a cache of half the data: which share of each epoch the bucket is spared."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks import rows
from benchmarks.contenders import Contender
from benchmarks.data import EPOCH, epoch_paths
from benchmarks.machine import drop_caches
from benchmarks.session import Session
from benchmarks.settings import MEBIBYTE, SMALL_FILE_BYTES

ROWS = (rows.EPOCH_HITS, rows.EPOCH_BYTES, rows.EPOCH_TIME)
LABEL = "epoch"
READERS = 2
# Over this share of the quota it was no quota: half the data cannot be compared with more than half.
TOLERATED_SHARE = 1.15
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
    with session.mounted(contender, session.source(EPOCH), LABEL, quota_bytes=data_bytes // 2) as tree:
        for epoch in range(scale.epochs):
            # Otherwise the page cache would hit where the contender's cache does not.
            drop_caches()
            before, start = session.link.received_bytes(), time.perf_counter()
            files = epoch_paths(tree.directory, scale.epoch_files, seed=epoch)
            done = session.loop.run("read", files, seconds=EPOCH_LIMIT_S, threads=READERS)
            if done.operations < len(files):
                raise TimeoutError(f"an epoch took more than {EPOCH_LIMIT_S:g} s")
            check_quota(session.work / "caches" / f"{LABEL}-{contender.name}", data_bytes // 2)
            fetched = session.link.received_bytes() - before
            session.say(
                f"  epoch {epoch + 1}: {fetched / MEBIBYTE:.0f} of {data_bytes / MEBIBYTE:.0f} MiB fetched"
            )
            if epoch > 0:
                _record(session, contender, fetched, data_bytes, time.perf_counter() - start)


def check_quota(cache: Path, quota_bytes: int) -> None:
    """OSError when a cache folder takes clearly more of the disk than it was told to."""
    used = sum(path.lstat().st_blocks * 512 for path in cache.rglob("*"))
    if used > quota_bytes * TOLERATED_SHARE:
        message = f"its cache took {used / MEBIBYTE:.0f} MiB of a quota of {quota_bytes / MEBIBYTE:.0f} MiB"
        raise OSError(message)


def _record(session: Session, contender: Contender, fetched: int, data_bytes: int, seconds: float) -> None:
    hits = max(0.0, 1 - fetched / data_bytes) * 100
    session.samples.add(rows.EPOCH_HITS, contender.name, hits)
    session.samples.add(rows.EPOCH_BYTES, contender.name, fetched / MEBIBYTE)
    session.samples.add(rows.EPOCH_TIME, contender.name, seconds)

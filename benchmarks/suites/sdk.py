"""Headrace's batch read against `open().read()`: of the local file system, and of Headrace's own mount."""

from __future__ import annotations

import statistics

from benchmarks import rows
from benchmarks.contenders import CacheSpace, Contender, Kind
from benchmarks.data import SMALL, small_paths
from benchmarks.session import AMPLE_QUOTA_BYTES, Session
from benchmarks.settings import SMALL_FILE_BYTES
from benchmarks.workloads import sdk

LABEL = "sdk"


def run(session: Session) -> None:
    """The loop for local and Headrace, then the batch read; data warm, page cache hot."""
    compared = [contender for contender in session.contenders if contender.kind is not Kind.PEER]
    for repetition, contender in session.repeated(compared):
        with session.attempt(contender, rows.SDK_LOOP):
            session.say(f"open().read() {repetition + 1}: {contender.name}")
            _loop(session, contender)
    for contender in compared:
        session.forget_cache(contender, LABEL)
    # One figure for all modes: the SDK reads beside the mount, not through it.
    for contender in [one for one in compared if one.kind is Kind.HEADRACE][:1]:
        session.say("batch read")
        with session.attempt(contender, rows.SDK_BATCH, rows.SDK_GAIN):
            _batch(session, contender)


def _loop(session: Session, contender: Contender) -> None:
    scale = session.scale
    with session.mounted(contender, session.source(), LABEL, keep_cache=True) as tree:
        files = small_paths(tree.directory, scale.loop_files)
        session.loop.run("read", files, seconds=scale.warm_limit_s)
        rate = sdk.python_loop_files_per_s(files, seconds=scale.loop_s)
        session.samples.add(rows.SDK_LOOP, contender.name, rate)


def _batch(session: Session, contender: Contender) -> None:
    scale, source = session.scale, session.source()
    folder = session.work / "caches" / "sdk-batch"
    folder.mkdir(parents=True, exist_ok=True)
    names = [str(path) for path in small_paths(session.work, scale.loop_files)]
    wanted = sdk.orders(
        source,
        CacheSpace(folder, AMPLE_QUOTA_BYTES),
        paths=[name.removeprefix(f"{session.work}/") for name in names],
        file_bytes=SMALL_FILE_BYTES,
        seconds=scale.loop_s,
    )
    assert wanted.paths[0].startswith(SMALL)
    figures = sdk.measure(wanted, source, repetitions=scale.repetitions, limit_s=scale.warm_limit_s * 4)
    for row, wait, cold in (
        (rows.SDK_COLD_BATCH, rows.SDK_COLD_BATCH_WAIT, figures.cold_batches),
        (rows.SDK_COLD_SINGLE, rows.SDK_COLD_SINGLE_WAIT, figures.cold_singles),
    ):
        if cold is not None:
            session.samples.add(row, contender.name, cold.files_per_s)
            session.samples.add(wait, contender.name, cold.p99_ms)
    local = session.samples.values.get(rows.SDK_LOOP.key, {}).get("local", [])
    for rate in figures.batch_rates:
        session.samples.add(rows.SDK_BATCH, contender.name, rate)
        if local:
            session.samples.add(rows.SDK_GAIN, contender.name, rate / statistics.median(local))

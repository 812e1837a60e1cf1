"""Headrace's SDK, measured in a process of its own: opening a dataset, opening it again, reading files in batches.

The one place where the benchmark calls `headrace.client`. Takes its orders as JSON on standard input, so that keys
stand on no command line, and answers in JSON.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.contenders import CacheSpace, Source
from benchmarks.native import LoopError

BATCH_FILES = 64
READERS = 16
"""Single reads under way at once."""
TURN_FILES = 4 * BATCH_FILES


@dataclass(frozen=True)
class Orders:
    """What the process is to do; without paths it only opens, twice."""

    origin: str
    cache: str
    options: Mapping[str, str]
    state_directory: str
    paths: Sequence[str]
    file_bytes: int
    seconds: float


@dataclass(frozen=True)
class Waits:
    """Reads of files of which nothing was cached: files a second, and how long all but a hundredth waited at most."""

    files_per_s: float
    p99_ms: float


@dataclass(frozen=True)
class Figures:
    """What it measured. `batch_rates` holds one rate for each repetition."""

    open_s: float
    open_again_s: float
    files: int
    batch_rates: Sequence[float]
    cold_batches: Waits | None = None
    cold_singles: Waits | None = None


def orders(
    source: Source, cache: CacheSpace, *, paths: Sequence[str], file_bytes: int, seconds: float
) -> Orders:
    """Orders for a dataset of an S3 source."""
    return Orders(
        origin=f"s3://{source.bucket}/{source.prefix}".rstrip("/"),
        cache=f"{cache.folder}:{cache.quota_mebibytes}Mi:SSD",
        options={"endpoint": source.endpoint, "path-style": "true", "region": source.region},
        state_directory=str(cache.folder) + ".state",
        paths=paths,
        file_bytes=file_bytes,
        seconds=seconds,
    )


def measure(wanted: Orders, source: Source, *, repetitions: int, limit_s: float) -> Figures:
    """Runs the process; LoopError with its words when it fails."""
    keys = source.credentials
    request = {"orders": asdict(wanted), "repetitions": repetitions, "keys": keys.environment()}
    command = [sys.executable, "-m", "benchmarks.workloads.sdk"]
    try:
        done = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, check=False, timeout=limit_s
        )
    except subprocess.TimeoutExpired as error:
        raise LoopError(f"the SDK's process did not end within {limit_s:.0f} s") from error
    if done.returncode != 0:
        raise LoopError(f"the SDK's process failed: {done.stderr.strip()[-400:]}")
    figures = json.loads(done.stdout)
    for name in ("cold_batches", "cold_singles"):
        figures[name] = Waits(**figures[name]) if figures[name] else None
    return Figures(**figures)


def python_loop_files_per_s(paths: Sequence[Path], *, seconds: float) -> float:
    """`open().read()` of whole files by Python, one after another, again and again."""
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        for path in paths[count % len(paths) :][:BATCH_FILES]:
            # Not Path.read_bytes: this is what a data loader does.
            with open(path, "rb") as file:  # noqa: PTH123
                file.read()
            count += 1
    return count / elapsed


def _open_and_read(wanted: Orders, repetitions: int) -> Figures:
    from headrace.client.dataset import open_dataset  # noqa: PLC0415 - only in the process that measures it

    def open_now(snapshot: str) -> tuple[float, object]:
        start = time.perf_counter()
        dataset = open_dataset(
            wanted.origin,
            cache=wanted.cache,
            options=wanted.options,
            state_directory=Path(wanted.state_directory),
            snapshot=snapshot,
        )
        return time.perf_counter() - start, dataset

    open_s, dataset = open_now("refresh")
    dataset.close()  # type: ignore[attr-defined]
    open_again_s, dataset = open_now("keep")
    files = dataset.status().snapshot.files  # type: ignore[attr-defined]
    rates, batches, singles = [], None, None
    if wanted.paths:
        batches, singles = _cold(dataset, wanted)
        dataset.warm(wanted.paths)  # type: ignore[attr-defined]
        rates = [_batch_rate(dataset, wanted) for _ in range(repetitions)]
    dataset.close()  # type: ignore[attr-defined]
    return Figures(open_s, open_again_s, files, rates, batches, singles)


def _cold(dataset: Any, wanted: Orders) -> tuple[Waits, Waits]:
    """Files in a random order, half of them by batches, the others one by one in as many threads as a loader has; in
    turns, so that neither has all of the process's beginning."""
    paths = random.Random(0).sample(wanted.paths, len(wanted.paths))
    memory = bytearray(BATCH_FILES * wanted.file_bytes)
    by_batch, single = Timed(), Timed()
    for first in range(0, len(paths), 2 * TURN_FILES):
        turn = paths[first : first + TURN_FILES]
        batches = [turn[start : start + BATCH_FILES] for start in range(0, len(turn), BATCH_FILES)]
        by_batch.run(lambda batch: dataset.read_many(batch, out=memory), batches, threads=1, files=len(turn))
        turn = paths[first + TURN_FILES : first + 2 * TURN_FILES]
        single.run(dataset.read, turn, threads=READERS, files=len(turn))
    return by_batch.waits(), single.waits()


@dataclass
class Timed:
    """Reads that were timed, over all turns."""

    files: int = 0
    seconds: float = 0.0
    each_s: list[float] = field(default_factory=list)

    def run(self, read: Callable[[Any], object], items: Sequence[Any], *, threads: int, files: int) -> None:
        def timed(item: Any) -> float:
            start = time.perf_counter()
            read(item)
            return time.perf_counter() - start

        start = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            self.each_s += pool.map(timed, items)
        self.seconds += time.perf_counter() - start
        self.files += files

    def waits(self) -> Waits:
        ordered = sorted(self.each_s)
        longest = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
        return Waits(self.files / self.seconds, longest * 1000)


def _batch_rate(dataset: object, wanted: Orders) -> float:
    """Batches into the same memory again and again, as a loader with a fixed buffer does."""
    memory = bytearray(BATCH_FILES * wanted.file_bytes)
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < wanted.seconds:
        first = count % len(wanted.paths)
        batch = wanted.paths[first : first + BATCH_FILES]
        views = dataset.read_many(batch, out=memory)  # type: ignore[attr-defined]
        if sum(len(view) for view in views) != len(batch) * wanted.file_bytes:
            raise OSError("a batch came back short")
        count += len(batch)
    return count / elapsed


def main() -> None:
    """The process that `measure` starts."""
    import os  # noqa: PLC0415 - this process sets its own environment before the engine reads it

    request = json.load(sys.stdin)
    os.environ.update(request["keys"])
    figures = _open_and_read(Orders(**request["orders"]), request["repetitions"])
    print(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()

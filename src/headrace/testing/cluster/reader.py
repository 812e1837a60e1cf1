"""A program that reads files as a training process does, and tells of each file what came and how long it waited.

Runs as a process of its own, so that a read that hangs cannot hang a test: `Reading` starts it and understands its
lines. Errors are told, not raised: what failed is for the test to judge.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

CHUNK_BYTES = 1 << 18


@dataclass(frozen=True)
class FileRead:
    """One file, read from its start to its end or to an error."""

    path: str
    size_bytes: int
    sha256: str
    seconds: float
    longest_wait_s: float
    """The longest of its open and its reads."""
    error: str = ""
    """The name of the errno, such as "EIO"; empty when all went well."""


@dataclass
class Waits:
    """The durations of single opens and reads: a histogram by powers of two of a microsecond."""

    longest_s: float = 0.0
    buckets: Counter[int] = field(default_factory=Counter)

    def note(self, seconds: float) -> None:
        self.longest_s = max(self.longest_s, seconds)
        self.buckets[max(0, int(seconds * 1e6)).bit_length()] += 1


@dataclass(frozen=True)
class Summary:
    """The summary of a whole reading. Bucket N counts waits below 2^N microseconds."""

    files: int
    size_bytes: int
    errors: int
    seconds: float
    processor_s: float
    longest_wait_s: float
    waits: dict[int, int]


class Reader:
    """Reads files below a root, in an order of its own."""

    def __init__(self, root: Path, *, keep_hashes: bool, drop: bool) -> None:
        """Hashing costs a core about 1 s a GB; `drop` takes a file out of the page cache before it is read, and after.

        After it, because pages that are freed at once are taken again by the next read. Where the machine is a virtual
        one that gives free pages back to its host, each page that was not used lately costs a fault in the host:
        readers of several nodes on one machine then take three times the processor time.
        """
        self._root = root
        self._keep_hashes = keep_hashes
        self._drop = drop
        self.waits = Waits()
        self._buffer = bytearray(CHUNK_BYTES)

    def read(self, name: str) -> FileRead:
        start, digest, size, error = time.monotonic(), hashlib.sha256(), 0, ""
        before = self.waits.longest_s
        self.waits.longest_s = 0.0
        try:
            for chunk in self._chunks(self._root / name):
                size += len(chunk)
                if self._keep_hashes:
                    digest.update(chunk)
        except OSError as fault:
            error = _errno_name(fault)
        longest, self.waits.longest_s = self.waits.longest_s, max(before, self.waits.longest_s)
        sha256 = digest.hexdigest() if self._keep_hashes else ""
        return FileRead(name, size, sha256, time.monotonic() - start, longest, error)

    def _chunks(self, path: Path) -> Iterator[memoryview]:
        start = time.monotonic()
        try:
            descriptor = os.open(path, os.O_RDONLY)
        finally:
            self.waits.note(time.monotonic() - start)
        try:
            self._drop_pages(descriptor)
            while count := self._timed_read(descriptor):
                yield memoryview(self._buffer)[:count]
            self._drop_pages(descriptor)
        finally:
            os.close(descriptor)

    def _drop_pages(self, descriptor: int) -> None:
        if self._drop:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def _timed_read(self, descriptor: int) -> int:
        start = time.monotonic()
        try:
            return os.readv(descriptor, [self._buffer])
        finally:
            # A read that fails has waited, too.
            self.waits.note(time.monotonic() - start)


def names_below(root: Path) -> list[str]:
    """Every file below a folder, sorted."""
    found = [Path(folder) / name for folder, _, names in os.walk(root) for name in names]
    return sorted(str(path.relative_to(root)) for path in found)


def ordered(names: Sequence[str], seed: int | None, passes: Iterable[int]) -> Iterator[str]:
    """Each pass in another order when there is a seed."""
    for number in passes:
        order = list(names)
        if seed is not None:
            random.Random(seed + number).shuffle(order)  # noqa: S311 - an order, no secret
        yield from order


def passes_until(path: Path) -> Iterator[int]:
    """One pass after the other, at least one, until a file is there."""
    return itertools.chain([0], itertools.takewhile(lambda _: not path.exists(), itertools.count(1)))


def _errno_name(error: OSError) -> str:
    import errno  # noqa: PLC0415 - only where something failed

    return errno.errorcode.get(error.errno or 0, str(error))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Reads files and tells how it went.")
    parser.add_argument("root", type=Path)
    parser.add_argument(
        "--only", action="append", help="this file; may be repeated (default: all below the root)"
    )
    parser.add_argument("--seed", type=int, help="reads in a shuffled order")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument(
        "--until", type=Path, metavar="FILE", help="passes follow each other until this file is there"
    )
    parser.add_argument(
        "--part",
        default="0/1",
        help="NUMBER/COUNT: every COUNT-th file of the order, as one of COUNT loaders",
    )
    parser.add_argument("--no-hash", action="store_true", help="does not look at what it reads")
    parser.add_argument(
        "--drop", action="store_true", help="takes files out of the page cache before reading"
    )
    parser.add_argument("--pause-ms", type=float, default=0, help="waits between files")
    parser.add_argument(
        "--start-at",
        type=float,
        default=0,
        metavar="SECONDS",
        help="begins, and counts, from this time of the monotonic clock, so that many begin together",
    )
    parser.add_argument("--threads", type=int, default=1, help="so many files are read at once")
    chosen = parser.parse_args(arguments)
    names = chosen.only or names_below(chosen.root)
    number, count = map(int, chosen.part.split("/"))
    passes = passes_until(chosen.until) if chosen.until else range(chosen.passes)
    wanted = _Wanted(itertools.islice(ordered(names, chosen.seed, passes), number, None, count))
    time.sleep(max(0.0, chosen.start_at - time.monotonic()))
    start, processor = chosen.start_at or time.monotonic(), time.process_time()
    with ThreadPoolExecutor(chosen.threads) as pool:
        results = [pool.submit(_read_all, chosen, wanted) for _ in range(chosen.threads)]
    parts = [result.result() for result in results]
    elapsed, used = time.monotonic() - start, time.process_time() - processor
    _tell({"summary": asdict(_sum(parts, elapsed, used))})


class _Wanted:
    """What is still to be read, handed to whichever thread asks next."""

    def __init__(self, names: Iterator[str]) -> None:
        self._names = names
        self._lock = threading.Lock()

    def next(self) -> str | None:
        with self._lock:
            return next(self._names, None)


def _read_all(chosen: argparse.Namespace, wanted: _Wanted) -> tuple[list[FileRead], Waits]:
    """What one thread reads."""
    reader = Reader(chosen.root, keep_hashes=not chosen.no_hash, drop=chosen.drop)
    reads = []
    while (name := wanted.next()) is not None:
        done = reader.read(name)
        reads.append(done)
        _tell({"file": asdict(done)})
        time.sleep(chosen.pause_ms / 1000)
    return reads, reader.waits


def _sum(parts: Sequence[tuple[list[FileRead], Waits]], seconds: float, processor_s: float) -> Summary:
    reads = [read for part, _ in parts for read in part]
    buckets = sum((waits.buckets for _, waits in parts), Counter())
    return Summary(
        files=len(reads),
        size_bytes=sum(read.size_bytes for read in reads),
        errors=sum(bool(read.error) for read in reads),
        seconds=seconds,
        processor_s=processor_s,
        longest_wait_s=max(waits.longest_s for _, waits in parts),
        waits=dict(sorted(buckets.items())),
    )


def _tell(line: dict[str, object]) -> None:
    # In one piece: threads take turns by the line.
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

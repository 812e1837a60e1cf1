"""One run: where it works, who takes part, what it has measured. Suites get it; it knows no workload."""

from __future__ import annotations

import contextlib
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.contenders import CacheSpace, Contender, Kind, Mounted, MountError, Source
from benchmarks.contenders.foreground import unmount
from benchmarks.data import BUCKET, copy_bucket, make_bucket, remove_folder
from benchmarks.native import FileLoop, LoopError
from benchmarks.samples import Row, Samples
from benchmarks.settings import Scale
from headrace.testing.network import NamespaceLink, ProxyLink
from headrace.testing.s3_server import S3Server

T = TypeVar("T")

# What a contender may fail with in a measurement; anything else is a fault of the benchmark.
MEASUREMENT_FAILURES = (LoopError, MountError, OSError, subprocess.SubprocessError)
AMPLE_QUOTA_BYTES = 16 << 30


@dataclass
class Session:
    """What every suite needs."""

    scale: Scale
    work: Path
    loop: FileLoop
    contenders: Sequence[Contender]
    server: S3Server
    link: NamespaceLink | ProxyLink
    """Counts what the server sends; without a limit."""
    samples: Samples = field(default_factory=Samples)
    suite_ends_at: float = math.inf
    """By `time.monotonic`; what comes after it gets no further repetition."""

    def begin_suite(self, share: float) -> None:
        """The suite that follows may take this share of the run's time."""
        self.suite_ends_at = time.monotonic() + share * self.scale.minutes * 60

    def repeated(self, items: Sequence[T]) -> Iterator[tuple[int, T]]:
        """`interleaved`, with as many whole repetitions as time allows; at least one."""
        start = time.monotonic()
        for repetition, item in interleaved(items, self.scale.repetitions):
            if repetition and item is in_turn(items, repetition)[0]:
                now = time.monotonic()
                if now + (now - start) / repetition > self.suite_ends_at:
                    self.say(f"no time for repetition {repetition + 1}")
                    return
            yield repetition, item

    def say(self, text: str) -> None:
        """Talk for the person who waits; the figures come at the end."""
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def source(self, prefix: str = "", *, server: S3Server | None = None) -> Source:
        """The bucket, or a folder of it, through the counting link unless another server is named."""
        chosen = server or self.server
        return Source(chosen.endpoint, BUCKET, prefix, chosen.region, chosen.credentials)

    @contextlib.contextmanager
    def mounted(
        self,
        contender: Contender,
        source: Source,
        label: str,
        *,
        quota_bytes: int = AMPLE_QUOTA_BYTES,
        memory_bytes: int | None = None,
        keep_cache: bool = False,
    ) -> Iterator[Mounted]:
        """Mounts with an empty cache (unless the label's cache is kept), and takes all of it away."""
        name = f"{label}-{contender.name}"
        mountpoint = self.work / "mounts" / name
        cache = CacheSpace(self.work / "caches" / name, quota_bytes, memory_bytes)
        tree = contender.mount(source, mountpoint, cache)
        self.samples.commands.setdefault(contender.name, self._without_paths(tree.command))
        try:
            yield tree
        finally:
            tree.close()
            if not keep_cache:
                self.forget_cache(contender, label)

    def forget_cache(self, contender: Contender, label: str) -> None:
        name = f"{label}-{contender.name}"
        for folder in (name, f"{name}.state"):
            shutil.rmtree(self.work / "caches" / folder, ignore_errors=True)

    @contextlib.contextmanager
    def attempt(self, contender: Contender, *rows: Row) -> Iterator[None]:
        """A failure in the block leaves the contender out of the rows, with its reason."""
        try:
            yield
        except MEASUREMENT_FAILURES as error:
            reason = self._without_paths(f"{error}").replace("\n", " ")[:300] or type(error).__name__
            self.say(f"  {contender.name}: {reason}")
            for row in rows:
                self.samples.leave_out(row, contender.name, reason)

    def names(self, kind: Kind) -> list[str]:
        return [contender.name for contender in self.contenders if contender.kind is kind]

    def make_data(self) -> None:
        """The bucket and its plain copy."""
        self.say(f"making {self.scale.data_bytes() / 2**30:.1f} GiB of data, twice")
        bucket = self.server.bucket_folder(BUCKET)
        make_bucket(bucket, self.scale)
        copy_bucket(bucket, self.work / "local" / BUCKET)

    def clean_up(self) -> None:
        """Unmounts what is still mounted below the work folder and removes the folder."""
        for mountpoint in (self.work / "mounts").glob("*"):
            unmount(mountpoint)
        remove_folder(self.work)

    def _without_paths(self, text: str) -> str:
        """Reports name no folder of this machine."""
        return text.replace(str(self.work), "WORK").replace(str(Path.home()), "~")


def interleaved(items: Sequence[T], repetitions: int) -> Iterator[tuple[int, T]]:
    """A B C, B C A, C A B: each is measured in each repetition, in another place each time.

    What disturbs the machine for a while then disturbs all of them, and no one always comes first.
    """
    for repetition in range(repetitions):
        for item in in_turn(items, repetition):
            yield repetition, item


def in_turn(items: Sequence[T], repetition: int) -> Sequence[T]:
    """All of them in the order of this repetition."""
    shift = repetition % max(len(items), 1)
    return (*items[shift:], *items[:shift])

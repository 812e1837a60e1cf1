"""The SDK on a node that holds nothing, through its mount's process: batches and single reads, in turns.

Run on that node as `python -m benchmarks.workloads.sdk_peers MOUNTPOINT`; answers in JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.native import LoopError
from headrace.testing.cluster import Node

BATCH_FILES = 16
READERS = 16


@dataclass
class Rates:
    """Bytes a second, over all turns."""

    batch_bytes_per_s: float
    single_bytes_per_s: float


def measure(node: Node, mountpoint: Path, *, limit_s: float) -> Rates:
    """Runs the process on the node; LoopError with its words when it fails."""
    command = [sys.executable, "-m", "benchmarks.workloads.sdk_peers", mountpoint]
    done = node.call(command, timeout_s=limit_s)
    if done.returncode != 0:
        raise LoopError(f"the SDK's process failed: {done.stderr.strip()[-400:]}")
    return Rates(**json.loads(done.stdout))


def _rates(mountpoint: Path) -> Rates:
    from headrace.client.dataset import open_dataset  # noqa: PLC0415 - only in the process that measures it

    found = sorted(Path(folder, name) for folder, _, names in os.walk(mountpoint) for name in names)
    paths = [str(path.relative_to(mountpoint)) for path in found]
    size_bytes = found[0].stat().st_size
    memory = bytearray(BATCH_FILES * size_bytes)
    batches = [paths[first : first + BATCH_FILES] for first in range(0, len(paths), BATCH_FILES)]
    spent_s, done_bytes = [0.0, 0.0], [0, 0]
    with open_dataset(mountpoint) as dataset, ThreadPoolExecutor(READERS) as pool:
        ways: Sequence[Callable[[Sequence[str]], int]] = (
            lambda batch: sum(map(len, dataset.read_many(batch, out=memory))),
            lambda batch: sum(map(len, pool.map(dataset.read, batch))),
        )
        # Each file once: the process that reads for us may keep it.
        for number, batch in enumerate(batches):
            start = time.perf_counter()
            done_bytes[number % 2] += ways[number % 2](batch)
            spent_s[number % 2] += time.perf_counter() - start
    if sum(done_bytes) != len(paths) * size_bytes:
        raise OSError("a read came back short")
    return Rates(done_bytes[0] / spent_s[0], done_bytes[1] / spent_s[1])


if __name__ == "__main__":
    print(json.dumps(asdict(_rates(Path(sys.argv[1])))))

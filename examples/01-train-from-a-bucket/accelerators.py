"""An epoch loop that reads images as fast as emulated accelerators ask for them, and prints what it saw as JSON.

As in MLPerf Storage, an accelerator is its compute time: it takes a batch, sleeps for as long as the real one would
compute, and takes the next; accelerator use is the share of the elapsed time that it computed. The numbers are those
of MLPerf Storage's ResNet-50 on an H100: 400 images a batch, 0.224 s a batch (205 MB/s at ImageNet's file sizes).
Images are read whole and not decoded. Every byte is read into a checksum, which must be the same for every way.

Knows nothing of buckets or of Headrace: it reads files.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import sys
import threading
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

BATCH_IMAGES = 400
BATCH_COMPUTE_S = 0.224
# What may wait for the accelerator, as with a data loader's prefetch of four batches.
PREFETCH_IMAGES = 4 * BATCH_IMAGES
# Readers and accelerator hand over this many images at a time, to spare the interpreter.
CHUNK_IMAGES = 8
LARGEST_IMAGE_BYTES = 8 << 20
PROGRESS_INTERVAL_S = 5


@dataclass
class Seen:
    """What the readers of one epoch have read; the checksum does not depend on the order."""

    images: int = 0
    size_bytes: int = 0
    checksum: int = 0

    def add(self, other: Seen) -> None:
        self.images += other.images
        self.size_bytes += other.size_bytes
        self.checksum = (self.checksum + other.checksum) % (1 << 64)


class Accelerator:
    """One emulated accelerator with its reader threads."""

    def __init__(self, folder: Path, names: list[str], *, readers: int) -> None:
        self._folder = folder
        self._images = len(names)
        self._pending = queue.SimpleQueue[list[str]]()
        for start in range(0, len(names), CHUNK_IMAGES):
            self._pending.put(names[start : start + CHUNK_IMAGES])
        self._room = threading.Semaphore(PREFETCH_IMAGES // CHUNK_IMAGES)
        self._ready = queue.SimpleQueue[Seen | BaseException]()
        self._readers = [threading.Thread(target=self._read_all, daemon=True) for _ in range(readers)]
        self._computing = threading.Thread(target=self._compute_all, daemon=True)
        self.seen = Seen()
        self.compute_s = 0.0
        self.error: BaseException | None = None

    def start(self) -> None:
        for thread in (*self._readers, self._computing):
            thread.start()

    def wait(self, timeout_s: float) -> bool:
        """True when the epoch has ended; raises what a reader met."""
        self._computing.join(timeout_s)
        if self.error:
            raise self.error
        return not self._computing.is_alive()

    def _compute_all(self) -> None:
        while self.error is None and self.seen.images < self._images:
            before = self.seen.images
            goal = min(before + BATCH_IMAGES, self._images)
            while self.error is None and self.seen.images < goal:
                self._take()
            batch_s = BATCH_COMPUTE_S * (self.seen.images - before) / BATCH_IMAGES
            self.compute_s += batch_s
            time.sleep(batch_s)

    def _take(self) -> None:
        item = self._ready.get()
        self._room.release()
        if isinstance(item, BaseException):
            self.error = item
        else:
            self.seen.add(item)

    def _read_all(self) -> None:
        buffer = memoryview(bytearray(LARGEST_IMAGE_BYTES))
        try:
            while True:
                names = self._pending.get_nowait()
                self._room.acquire()
                self._ready.put(_read_chunk(self._folder, names, buffer))
        except queue.Empty:
            return
        except BaseException as error:  # the accelerator's thread tells the caller
            self._ready.put(error)


def _read_chunk(folder: Path, names: list[str], buffer: memoryview) -> Seen:
    seen = Seen()
    for name in names:
        content = _read_file(f"{folder}/{name}", buffer)
        # The name is part of the checksum, so that two files that changed places are noticed.
        seen.add(Seen(1, len(content), zlib.crc32(content, zlib.crc32(name.encode()))))
    return seen


def _read_file(path: str, buffer: memoryview) -> memoryview:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path for each image costs time
        filled = 0
        while count := file.readinto(buffer[filled:]):
            filled += count
    return buffer[:filled]


def run_epoch(folder: Path, names: list[str], *, accelerators: int, readers: int) -> dict[str, float]:
    """One pass over the names by all accelerators at once, each with its share of them."""
    running = [Accelerator(folder, names[n::accelerators], readers=readers) for n in range(accelerators)]
    started = time.monotonic()
    for accelerator in running:
        accelerator.start()
    next_report_s = started + PROGRESS_INTERVAL_S
    while not all(accelerator.wait(0.1) for accelerator in running):
        if time.monotonic() > next_report_s:
            next_report_s += PROGRESS_INTERVAL_S
            _report(running, len(names), time.monotonic() - started)
    elapsed_s = time.monotonic() - started
    total = Seen()
    for accelerator in running:
        total.add(accelerator.seen)
    compute_s = sum(accelerator.compute_s for accelerator in running) / accelerators
    return {
        "time_s": elapsed_s,
        "compute_s": compute_s,
        "accelerator_use": compute_s / elapsed_s,
        "images": total.images,
        "bytes": total.size_bytes,
        "checksum": total.checksum,
    }


def _report(running: list[Accelerator], total: int, elapsed_s: float) -> None:
    done = sum(accelerator.seen.images for accelerator in running)
    print(f"    {done:,} of {total:,} images, {done / elapsed_s:,.0f} a second", file=sys.stderr, flush=True)


def list_images(folder: Path) -> list[str]:
    """`class/name` of every image, in name order, as a training program finds them."""
    # Not Path.iterdir: a Path for each of many thousand names costs time that is not the storage's.
    classes = sorted(os.listdir(folder))  # noqa: PTH208
    return [f"{label}/{name}" for label in classes for name in sorted(os.listdir(folder / label))]  # noqa: PTH208


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--accelerators", type=int, default=1)
    parser.add_argument("--readers", type=int, default=8, help="threads of each accelerator")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.monotonic()
    names = list_images(arguments.folder)
    list_s = time.monotonic() - started
    random.Random(arguments.seed).shuffle(names)
    epoch = run_epoch(arguments.folder, names, accelerators=arguments.accelerators, readers=arguments.readers)
    print(json.dumps({"list_s": list_s, **epoch}))


if __name__ == "__main__":
    main()

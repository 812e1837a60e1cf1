"""Measures pages that a program touches at random in a map with MADV_RANDOM, as lmdb and vector indexes do.

python -m benchmarks.random_maps [--size-mib N] [--touched PERCENT] [--cold] [MODE…]

For each mode: a mount of a folder with one file, all of it in the cache (and in the page cache, but for --cold), and
one reader that touches so many of its pages in an order of its own, once each. Prints microseconds a page, requests of
the kernel a page, and bytes that the kernel was given unasked. `local` is the file itself. Root measures passthrough.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PAGE = mmap.PAGESIZE
_HEADRACE = Path(sys.executable).parent / "headrace"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each mode."""
    chosen = _parse(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.work) as folder:
        source = Path(folder) / "source"
        source.mkdir()
        pages = (chosen.size_mib << 20) // PAGE
        with (source / "index").open("wb") as file:
            for number in range(chosen.size_mib):
                file.write(random.Random(number).randbytes(1 << 20))
        order = random.Random(7).sample(range(pages), pages * chosen.touched // 100)
        for mode in chosen.modes:
            print(f"{mode:12}", _measured(mode, source, order, cold=chosen.cold), flush=True)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_maps")
    parser.add_argument("--size-mib", type=int, default=64)
    parser.add_argument("--touched", type=int, default=100, metavar="PERCENT")
    parser.add_argument("--cold", action="store_true", help="drop the page cache before (root)")
    parser.add_argument("--work", type=Path, default=None, metavar="FOLDER")
    parser.add_argument("modes", nargs="*", default=["local", "passthrough", "elide", "classic"])
    return parser.parse_args(arguments)


def _measured(mode: str, source: Path, order: Sequence[int], *, cold: bool) -> str:
    if mode == "local":
        return f"{_touch(source / 'index', order, cold=cold):8.2f} µs a page"
    with _mounted(source, mode) as mountpoint:
        asked, given = _counted(mountpoint)
        took_us = _touch(mountpoint / "index", order, cold=cold)
        asked_later, given_later = _counted(mountpoint)
    share, given_mib = (asked_later - asked) / len(order), (given_later - given) >> 20
    return f"{took_us:8.2f} µs a page, {share:.2f} requests a page, {given_mib} MiB given unasked"


def _touch(path: Path, order: Sequence[int], *, cold: bool) -> float:
    if cold:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("1", encoding="ascii")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
        view.madvise(mmap.MADV_RANDOM)
        start = time.perf_counter()
        for page in order:
            view[page * PAGE]
        return (time.perf_counter() - start) * 1e6 / len(order)


@contextmanager
def _mounted(source: Path, mode: str) -> Iterator[Path]:
    mountpoint, cache = source.parent / f"mnt-{mode}", source.parent / f"cache-{mode}"
    mountpoint.mkdir()
    state = source.parent / f"state-{mode}"
    words = ("--mode", mode, "--cache", f"{cache}:8Gi", "--state-directory", state)
    _headrace("mount", source, mountpoint, *words)
    try:
        _headrace("warm", mountpoint)
        yield mountpoint
    finally:
        _headrace("unmount", mountpoint)


def _counted(mountpoint: Path) -> tuple[int, int]:
    """Requests to read, and bytes given unasked."""
    told = _headrace("metrics", mountpoint)
    found = (
        re.search(rf"^headrace_fuse_{name} (\d+)$", told, re.MULTILINE)
        for name in (r"requests_total\{[^}]*\"read\"\}", "given_bytes_total")
    )
    asked, given = (int(value.group(1)) if value else 0 for value in found)
    return asked, given


def _headrace(*words: str | Path) -> str:
    return subprocess.run([_HEADRACE, *words], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())

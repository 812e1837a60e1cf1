"""Reading large files: in order, at random, and by mmap."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.native import FileLoop, LoopError
from benchmarks.settings import MEBIBYTE

FIO_GRACE_S = 20


def sequential_mib_per_s(loop: FileLoop, files: Sequence[Path], *, seconds: float, repeat: bool) -> float:
    """One reader, 1 MiB blocks, one file after another; `repeat` goes on for `seconds`, else one pass at most."""
    passes = 0 if repeat else 1
    return loop.run("sequential", files, seconds=seconds, passes=passes, block_bytes=MEBIBYTE).mebibytes_per_s


def mmap_mib_per_s(loop: FileLoop, files: Sequence[Path], *, seconds: float, repeat: bool) -> float:
    """One reader that touches each page of each file once."""
    return loop.run("mmap", files, seconds=seconds, passes=0 if repeat else 1).mebibytes_per_s


def random_reads_per_s(files: Sequence[Path], *, block_bytes: int, seconds: float, seed: int) -> float:
    """fio: one thread, pread at random places of all files. The same seed reads the same places."""
    command = [
        *("fio", "--name=random", "--readonly", "--rw=randread", "--ioengine=psync", "--thread"),
        *(f"--filename={':'.join(map(str, files))}", f"--bs={block_bytes}", f"--randseed={seed + 1}"),
        *("--norandommap", "--allow_file_create=0", "--invalidate=0", "--file_service_type=random"),
        *("--time_based", f"--runtime={max(1, round(seconds))}", "--output-format=json"),
    ]
    limit_s = seconds + FIO_GRACE_S
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise LoopError(f"fio did not end within {limit_s:.0f} s") from error
    if done.returncode != 0:
        raise LoopError(f"fio failed: {done.stderr.strip()[-300:]}")
    # fio may write warnings before the object.
    report = json.loads(done.stdout[done.stdout.index("{") :])
    return float(report["jobs"][0]["read"]["iops"])

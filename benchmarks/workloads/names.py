"""Names: ls, ls -l and find, by the programs that people type, with their time limit."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.native import LoopError


def list_seconds(directory: Path, *, entries: int, limit_s: float) -> float:
    """`ls` of one directory; LoopError when it takes longer or shows another number of names."""
    return _timed_lines(["ls", str(directory)], entries, limit_s)


def long_list_seconds(directory: Path, *, entries: int, limit_s: float) -> float:
    """`ls -l` of one directory."""
    return _timed_lines(["ls", "-l", str(directory)], entries + 1, limit_s)


def walk_seconds(directory: Path, *, entries: int, limit_s: float) -> float:
    """`find -type f` of a tree."""
    return _timed_lines(["find", str(directory), "-type", "f"], entries, limit_s)


def _timed_lines(command: Sequence[str], expected: int, limit_s: float) -> float:
    # Without colours and locales, as a script runs it.
    environment = {**os.environ, "LC_ALL": "C"}
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise LoopError(f"{_label(command)} took more than {limit_s:g} s") from error
    elapsed = time.perf_counter() - start
    if process.returncode != 0:
        raise LoopError(f"{_label(command)} failed: {errors.decode(errors='replace').strip()[-300:]}")
    lines = output.count(b"\n")
    if lines != expected:
        raise LoopError(f"{_label(command)} showed {lines} lines instead of {expected}")
    return elapsed


def _label(command: Sequence[str]) -> str:
    """The command without the folder that it lists."""
    return " ".join(part for part in command if "/" not in part)

"""Runs the hot loops of `fileloop.c`, compiled once for each process of the benchmark.

Knows nothing of contenders and cache states: a list of paths goes in, counts and seconds come out.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("fileloop.c")
GRACE_S = 30


class LoopError(RuntimeError):
    """A loop could not run, ran past its time, or met errors in what it read."""


@dataclass(frozen=True)
class LoopResult:
    """What one run of the loop did; latencies only where they were asked for."""

    operations: int
    bytes: int
    seconds: float
    passes: float
    errors: int
    first_error: str
    median_us: float = 0.0
    p99_us: float = 0.0

    @property
    def operations_per_s(self) -> float:
        return self.operations / self.seconds

    @property
    def mebibytes_per_s(self) -> float:
        return self.bytes / self.seconds / 2**20


class FileLoop:
    """The compiled program; one may be used by every workload."""

    def __init__(self, folder: Path) -> None:
        """Compiles into `folder` with the machine's C compiler."""
        self._program = folder / "fileloop"
        command = ["cc", "-O2", "-pthread", "-o", str(self._program), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LoopError(f"cannot compile {SOURCE.name}: {done.stderr.strip()}")

    def run(
        self,
        mode: str,
        paths: Sequence[Path],
        *,
        seconds: float,
        passes: int = 1,
        threads: int = 1,
        block_bytes: int = 131_072,
        limit_bytes: int = 0,
        latency: bool = False,
        allow_errors: bool = False,
    ) -> LoopResult:
        """Runs one mode over the paths; `passes=0` repeats until `seconds` have passed."""
        options = {"--threads": threads, "--seconds": seconds, "--passes": passes, "--block": block_bytes}
        flags = [text for name, value in options.items() for text in (name, str(value))]
        with tempfile.NamedTemporaryFile("w", prefix="headrace-bench-list-") as names:
            names.writelines(f"{path}\n" for path in paths)
            names.flush()
            command = [str(self._program), mode, "--list", names.name, *flags, "--bytes", str(limit_bytes)]
            text = _output(command + ["--latency"] * latency, timeout_s=seconds + GRACE_S)
        result = LoopResult(**json.loads(text))
        if result.errors and not allow_errors:
            raise LoopError(f"{result.errors} of {result.operations} operations failed: {result.first_error}")
        return result


def _output(command: list[str], *, timeout_s: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise LoopError(f"`{command[1]}` did not end within {timeout_s:.0f} s") from error
    if done.returncode != 0:
        raise LoopError(f"`{command[1]}` failed: {done.stderr.strip()}")
    return done.stdout

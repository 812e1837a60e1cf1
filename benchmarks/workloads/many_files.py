"""What very many files cost the engine: its own program `crates/engine/examples/many_files` measures its steps."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from benchmarks.native import LoopError

ROOT = Path(__file__).parent.parent.parent
PROGRAM = "many_files"
LIMIT_S = 1800.0


def seconds_of_steps(files: int, cached: int, folder: Path) -> dict[str, float]:
    """Step → its seconds, for a snapshot of `files` names and a cache of `cached` of them below `folder`.

    Compiles the program first, which takes minutes the first time. Raises LoopError when it fails.
    """
    cargo = ["cargo", "run", "--release", "--locked", "--quiet", "--package", "headrace-engine"]
    command = [*cargo, "--example", PROGRAM, "--", str(files), str(cached), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise LoopError(f"{PROGRAM} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return parse(done.stdout.splitlines())


def parse(lines: Iterable[str]) -> dict[str, float]:
    """Step → seconds, of lines with a tab between the two."""
    return {step: float(seconds) for step, seconds in (line.split("\t") for line in lines)}

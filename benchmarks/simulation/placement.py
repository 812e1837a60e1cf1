"""Where blocks lie: the engine's own ring, asked for every stripe by `crates/engine/examples/ring_simulation`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


def simulate(workers: int, blocks: int, replicas: int) -> dict[str, Any]:
    """What the simulation found. Needs cargo; 10,000 workers and 100 million blocks take some minutes."""
    threads = len(os.sched_getaffinity(0))
    command = ["cargo", "run", "--release", "--locked", "--quiet", "--package", "headrace-engine"]
    command += ["--example", "ring_simulation", "--", *map(str, (workers, blocks, replicas, threads))]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def tables(found: dict[str, Any]) -> Iterator[str]:
    """The findings as Markdown."""
    yield f"{found['workers']:,} workers (a third each of 1, 2 and 4 TB), {found['blocks']:,} blocks of 4 MiB."
    yield from (
        "",
        "| how full, 1 = mean | blocks a worker | lowest | p99 | highest | chance |",
        "|---|---|---|---|---|---|",
    )
    for name, key in (("first owners", "primaries"), (f"all {found['replicas']} owners", "copies")):
        fill = found[key]
        figures = " | ".join(f"{fill[column]:.3f}" for column in ("lowest", "p99", "highest"))
        yield f"| {name} | {fill['blocks_per_worker']:,.0f} | {figures} | ±{fill['chance']:.3f} |"
    yield from (
        "",
        "| change | copies moved | share that came or went | moved between others |",
        "|---|---|---|---|",
    )
    for change in found["movements"]:
        yield f"| {change['name']} | {change['share']:.4%} | {change['least']:.4%} | {change['stray']} |"

"""Loading the weights of a model, by one process or by the ranks of some nodes at once. Knows no contender."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.native import LoopError
from headrace.testing.processes import ServerProcess, ServerStartError

MODULE = "benchmarks.workloads.loader"
CHECKOUT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.02

_numbers = itertools.count()


class Place(Protocol):
    """Where a loader runs: this machine, or a node of a bed."""

    def run(
        self,
        command: Sequence[str | Path],
        *,
        name: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ServerProcess: ...


@dataclass(frozen=True)
class ThisMachine:
    """Logs go to `folder`."""

    folder: Path

    def run(
        self,
        command: Sequence[str | Path],
        *,
        name: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ServerProcess:
        self.folder.mkdir(parents=True, exist_ok=True)
        log_path = self.folder / f"{name or Path(command[0]).name}.log"
        return ServerProcess([str(word) for word in command], log_path=log_path, environment=environment)


@dataclass(frozen=True)
class Rank:
    """One process that loads: which files, and which part of each tensor."""

    place: Place
    names: Sequence[str | Path]
    rank: int = 0
    ranks: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)


def missing(*packages: str) -> str | None:
    """Why weights cannot be loaded here, or None."""
    absent = [name for name in ("torch", "safetensors", *packages) if importlib.util.find_spec(name) is None]
    return f"not installed in this environment: {', '.join(absent)}" if absent else None


def load_seconds(
    loader: str, ranks: Sequence[Rank], folder: Path, *, before: Callable[[], object], limit_s: float
) -> float:
    """From the word to begin to the last tensor of the last rank. `before` is called when all are about to begin.

    LoopError for a rank that failed, copied nothing, or was not done within the limit.
    """
    go = folder / f"go-{next(_numbers)}"
    processes = [_start(loader, rank, go) for rank in ranks]
    try:
        for process in processes:
            process.wait_until(
                lambda log=process.log_path: b"ready" in log.read_bytes(), timeout_s=START_TIMEOUT_S
            )
        before()
        go.touch()
        done = _finished(loader, processes, time.monotonic() + limit_s)
    except ServerStartError as error:
        raise LoopError(f"{loader}: {error}") from error
    finally:
        for process in processes:
            process.stop()
        go.unlink(missing_ok=True)
    return max(float(one["ended"]) for one in done) - min(float(one["begun"]) for one in done)


def _start(loader: str, rank: Rank, go: Path) -> ServerProcess:
    paths = os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])
    words: list[str | Path] = [sys.executable, "-m", MODULE, loader, go, *rank.names]
    words += ["--rank", str(rank.rank), "--ranks", str(rank.ranks)]
    environment = {**rank.environment, "PYTHONPATH": paths}
    return rank.place.run(words, name=f"loader-{next(_numbers)}", environment=environment)


def _finished(loader: str, processes: Sequence[ServerProcess], deadline: float) -> list[dict[str, Any]]:
    while any(process.is_running() for process in processes):
        if time.monotonic() > deadline:
            raise LoopError(f"{loader}: the weights were not loaded within their time")
        time.sleep(POLL_INTERVAL_S)
    return [_report(loader, process) for process in processes]


def _report(loader: str, process: ServerProcess) -> dict[str, Any]:
    if process.exit_code != 0:
        raise LoopError(f"{loader} ended with {process.exit_code}: {process.log_tail()}")
    report = read_report(process.log_path)
    if not report["copied_bytes"]:
        raise LoopError(f"{loader} loaded nothing")
    return report


def read_report(log_path: Path) -> dict[str, Any]:
    """What a loader that has ended told of itself."""
    report: dict[str, Any] = json.loads(log_path.read_text().strip().splitlines()[-1])
    return report

"""A whole run as one value, and as JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.promises import LOCAL, Outcome, judge, judge_against_peers
from benchmarks.report.statistics import advantage, best
from benchmarks.samples import Row, Samples
from benchmarks.settings import Scale

SUBJECT = "headrace"


@dataclass(frozen=True)
class Run:
    """Everything that a report needs."""

    facts: Mapping[str, object]
    scale: Scale
    versions: Mapping[str, str]
    left_out: Mapping[str, str]
    samples: Samples
    kinds: Mapping[str, str]
    """Contender → local, peer or headrace. Who is not here is a reference, and takes part in no ratio."""
    command: str
    drops_caches: bool
    seconds: float
    ended_at: str = field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    )

    def peers(self) -> set[str]:
        return {name for name, kind in self.kinds.items() if kind == "peer"}

    def promises(self) -> list[Outcome]:
        return judge(self.samples, SUBJECT)

    def against_peers(self) -> list[Outcome]:
        return judge_against_peers(self.samples, SUBJECT, self.peers())

    def cache_note(self) -> str:
        return (
            "made cold by dropping the kernel's caches" if self.drops_caches else "not made cold: needs root"
        )


@dataclass(frozen=True)
class Ratios:
    """How a figure stands: to the local file system and to the best peer, above 1 is better."""

    to_local: float | None
    to_best_peer: float | None
    best_peer: str | None


def ratios(run: Run, row: Row, contender: str) -> Ratios:
    """None where there is nothing to compare with, or the row says nothing about it."""
    medians = {name: summary.median for name, summary in run.samples.summaries(row.key).items()}
    if contender not in medians or not row.compare:
        return Ratios(None, None, None)
    rivals = {name: value for name, value in medians.items() if name in run.peers() and name != contender}
    rival = best(rivals, row.better)
    to_local = advantage(medians[contender], medians[LOCAL], row.better) if LOCAL in medians else None
    to_rival = advantage(medians[contender], rivals[rival], row.better) if rival else None
    return Ratios(to_local, to_rival, rival)


def write_json(run: Run, path: Path) -> None:
    """Machine, versions, commands, every single value, and the verdicts."""
    path.write_text(json.dumps(as_document(run), indent=2) + "\n")


def as_document(run: Run) -> dict[str, Any]:
    return {
        "ended_at": run.ended_at,
        "seconds": round(run.seconds, 1),
        "command": run.command,
        "machine": dict(run.facts),
        "page_cache": run.cache_note(),
        "scale": asdict(run.scale),
        "versions": dict(run.versions),
        "commands": run.samples.commands,
        "left_out": dict(run.left_out),
        "histograms": run.samples.histograms,
        "rows": [_row(run, row) for row in run.samples.rows.values()],
        "promises": [_outcome(outcome) for outcome in run.promises()],
        "against_the_best_peer": [_outcome(outcome) for outcome in run.against_peers()],
    }


def _row(run: Run, row: Row) -> dict[str, Any]:
    facts = {
        "key": row.key,
        "title": row.title,
        "unit": row.unit,
        "better": row.better.value,
        "cache": row.cache,
    }
    figures = {
        name: {
            **asdict(summary),
            "values": run.samples.values[row.key][name],
            **asdict(ratios(run, row, name)),
        }
        for name, summary in run.samples.summaries(row.key).items()
    }
    return {**facts, "contenders": figures, "left_out": run.samples.reasons.get(row.key, {})}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {**asdict(outcome), "verdict": outcome.verdict.value}

"""The counters of one mount, asked of its process."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headrace.engine.handles import Engine
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry
from headrace.engine.status import EngineReport
from headrace.local.datasets.mount_questions import MountQuestions
from headrace.local.jobs.cost_accounting import Counters

_STALLED = re.compile(r"^headrace_read_seconds_sum (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Told:
    entry: Entry
    report: EngineReport
    stalled_s: float


_questions = MountQuestions[_Told | None]()


async def counters_of_mount(
    registry: Registry, mountpoint: str, since: datetime
) -> tuple[Counters, bool] | None:
    """Its counters, and whether bytes passed it by; `None` when nothing is mounted there.

    Raises what the engine raises, and `TimeoutError` for a process that does not answer.
    """
    told = await _questions.ask(mountpoint, lambda: _ask(registry, mountpoint))
    if told is None:
        return None
    entry, reads = told.entry, told.report.reads
    counters = Counters(
        instance=f"{entry.pid}-{entry.started_ticks}",
        is_new=entry.started_at_s >= since.timestamp(),
        read_bytes=reads.read_bytes,
        remote_bytes=reads.cluster_bytes,
        stalled_s=told.stalled_s,
    )
    return counters, reads.passthrough_opens > 0


def _ask(registry: Registry, mountpoint: str) -> _Told | None:
    entry = next((each for each in registry.entries() if each.mountpoint == mountpoint), None)
    if entry is None:
        return None
    with Engine.attach(Path(entry.state_directory)) as engine:
        report, metrics = engine.status(), engine.metrics()
    stalled = _STALLED.search(metrics)
    return _Told(entry, report, float(stalled[1]) if stalled else 0.0)

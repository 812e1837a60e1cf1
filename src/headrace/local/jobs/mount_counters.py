"""The counters of one mount, asked of its process."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from headrace.engine.handles import Engine
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry
from headrace.jobs.data_cost import Reading, mount_counters, values_of
from headrace.local.datasets.mount_questions import MountQuestions

_questions = MountQuestions[tuple[Entry, str] | None]()


async def reading_of_mount(
    registry: Registry, mountpoint: str, source: str, since: datetime
) -> Reading | None:
    """The present counters of the mount; `None` when nothing is mounted there, or what answers is no mount.

    Raises what the engine raises, and `TimeoutError` for a process that does not answer.
    """
    told = await _questions.ask(mountpoint, lambda: _ask(registry, mountpoint))
    if told is None:
        return None
    entry, metrics = told
    values = values_of(metrics)
    if values is None:
        return None
    return Reading(
        source=source,
        life=f"{entry.pid}-{entry.started_ticks}",
        counters=mount_counters(values),
        began_before=entry.started_at_s < since.timestamp(),
    )


def _ask(registry: Registry, mountpoint: str) -> tuple[Entry, str] | None:
    entry = next((each for each in registry.entries() if each.mountpoint == mountpoint), None)
    if entry is None:
        return None
    with Engine.attach(Path(entry.state_directory)) as engine:
        return entry, engine.metrics()

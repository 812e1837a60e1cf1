"""What a job's data cost, from counters of mounts and workers: differences, kept across restarts of both. Pure.

A mount counts the bytes that it gave to programs, and those of them that came from workers of other nodes. Workers
count the bytes that they fetched from the origin. What of a dataset was fetched in the time of a job is charged to the
job; the rest of what it read was cached, and is shared out between other nodes and its own as its mounts received it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict, Field

from headrace.deferred_model import DeferredModel
from headrace.jobs.views import DataCost


class Counters(DeferredModel):
    """One counting process at one moment. Another `instance` began at zero."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    instance: str
    is_new: bool = False
    """It has begun since the job was submitted, so all that it counted was in the time of the job."""
    read_bytes: int = 0
    remote_bytes: int = 0
    origin_bytes: int = 0
    loaded_bytes: int = 0
    """Fetched from the origin because of a load, not of a reader."""
    stalled_s: float = 0.0


class Meter(DeferredModel):
    """What was counted so far, and the counters as they were last, by who counts."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    last: dict[str, Counters] = Field(default_factory=dict)
    read_bytes: int = 0
    remote_bytes: int = 0
    origin_bytes: int = 0
    loaded_bytes: int = 0
    stalled_s: float = 0.0
    is_shared: bool = False
    """Somebody else used the same data at the same time, and is counted here, too."""
    is_estimated: bool = False
    """Files that the kernel reads by itself were counted by their size."""


def advanced(
    meter: Meter,
    now: Mapping[str, Counters],
    *,
    is_shared: bool = False,
    is_estimated: bool = False,
) -> Meter:
    """The meter after another reading. Who does not answer is counted when he answers again."""
    moved = [_moved(meter.last.get(name), each) for name, each in now.items()]
    return Meter(
        last={**meter.last, **now},
        read_bytes=meter.read_bytes + sum(each.read_bytes for each in moved),
        remote_bytes=meter.remote_bytes + sum(each.remote_bytes for each in moved),
        origin_bytes=meter.origin_bytes + sum(each.origin_bytes for each in moved),
        loaded_bytes=meter.loaded_bytes + sum(each.loaded_bytes for each in moved),
        stalled_s=meter.stalled_s + sum(each.stalled_s for each in moved),
        is_shared=meter.is_shared or is_shared,
        is_estimated=meter.is_estimated or is_estimated,
    )


def cost_of(meter: Meter) -> DataCost | None:
    """The cost so far; `None` before anything was read or counted."""
    if not meter.last:
        return None
    origin = max(meter.origin_bytes - meter.loaded_bytes, 0)
    cached = max(meter.read_bytes - origin, 0)
    remote = min(meter.remote_bytes, meter.read_bytes)
    peer = cached * remote // meter.read_bytes if meter.read_bytes else 0
    return DataCost(
        origin_bytes=origin,
        peer_bytes=peer,
        local_bytes=cached - peer,
        stalled_s=round(meter.stalled_s, 3),
        is_shared=meter.is_shared,
        is_reckoned=meter.is_estimated,
    )


def _moved(before: Counters | None, now: Counters) -> Counters:
    """What was counted since then."""
    if before is None:
        return now if now.is_new else Counters(instance=now.instance)
    if before.instance != now.instance:
        return now
    return Counters(
        instance=now.instance,
        read_bytes=max(now.read_bytes - before.read_bytes, 0),
        remote_bytes=max(now.remote_bytes - before.remote_bytes, 0),
        origin_bytes=max(now.origin_bytes - before.origin_bytes, 0),
        loaded_bytes=max(now.loaded_bytes - before.loaded_bytes, 0),
        stalled_s=max(now.stalled_s - before.stalled_s, 0.0),
    )

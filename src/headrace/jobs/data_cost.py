"""The cost of a job's data, from the counters of the mounts that it read through and of the workers behind them. Pure.

Mounts know how many bytes programs read, and how many of those other nodes sent; only workers know what came from the
origin. A load's fetches meanwhile are not charged to the job: `headrace.hit_ratio` has the definition. Bytes of files
that the kernel reads by itself (passthrough) are counted by nobody: the mount estimates them from the files' sizes.

Counters belong to processes, which come and go, so each is kept with the life of its process: what a process counted
before the job began is not the job's, what a new one counts is.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from headrace.hit_ratio import hit_bytes, remote_hit_bytes
from headrace.jobs.views import DataCost

_OURS = "headrace_"
_MOST, _MOST_NAMES, _LONGEST_LINE = 2.0**63, 4096, 4096
MOST_SOURCES = 500
"""Annotations of an object have 256 KiB together. Mounts beyond that are not counted."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters that grow from a process's start. Of a mount all but `fetched_bytes`, of a worker that alone."""

    read_bytes: float = 0.0
    remote_bytes: float = 0.0
    """Those of them that came from workers of other nodes."""
    kernel_bytes: float = 0.0
    """Estimate of the bytes that the kernel read from the cache by itself."""
    stalled_s: float = 0.0
    fetched_bytes: float = 0.0
    """Bytes that origins sent, without those of loads."""

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(a + b for a, b in zip(self._values(), other._values(), strict=True)))

    def since(self, before: Counters) -> Counters:
        """Their growth. One that fell began anew at zero: all of it is growth."""
        pairs = zip(self._values(), before._values(), strict=True)
        return Counters(*(now - then if now >= then else now for now, then in pairs))

    def _values(self) -> tuple[float, ...]:
        return tuple(getattr(self, each.name) for each in fields(self))


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of one process at one moment."""

    source: str
    """`imagenet/mount/node-1`."""
    life: str
    """Changes when the process is another one."""
    counters: Counters
    began_before: bool
    """The process ran before the job did."""


@dataclass(frozen=True, slots=True)
class Meter:
    """One source as it was read last, and how much it grew in the life of the job."""

    life: str
    last: Counters
    grown: Counters = field(default_factory=Counters)


@dataclass(frozen=True, slots=True)
class Metering:
    """All sources of a job."""

    meters: Mapping[str, Meter] = field(default_factory=dict)
    is_shared: bool = False
    settled: DataCost | None = None
    is_final: bool = False
    """The job has ended, and `settled` is what it cost; `None` when nothing could be read."""

    @property
    def cost(self) -> DataCost | None:
        """The cost so far; `None` when nothing could be read."""
        if self.is_final or not self.meters:
            return self.settled
        total = sum((each.grown for each in self.meters.values()), Counters())
        return cost_of(total, is_shared=self.is_shared)

    def read(self, readings: Iterable[Reading], *, is_shared: bool) -> Metering:
        """After another pass. A source that does not answer is counted when it answers again."""
        meters = dict(self.meters)
        for reading in readings:
            if reading.source in meters or len(meters) < MOST_SOURCES:
                meters[reading.source] = _advanced(meters.get(reading.source), reading)
        return replace(self, meters=meters, is_shared=self.is_shared or is_shared)

    def closed(self) -> Metering:
        """At the end of the job: the counters are needed no more."""
        return Metering(is_shared=self.is_shared, settled=self.cost, is_final=True)


def values_of(text: str) -> dict[str, float] | None:
    """The values of our metrics in OpenMetrics text by name, those of all labels together; `None` for another text.

    Values that nobody can have counted are left out: the sender may be another.
    """
    # Here, since most programs that know jobs read no metrics.
    from prometheus_client.openmetrics.parser import text_string_to_metric_families  # noqa: PLC0415

    # Reading a line takes the square of its length.
    if any(len(line) > _LONGEST_LINE for line in io.StringIO(text)):
        return None
    found: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
            for sample in family.samples:
                _add(found, sample.name, float(sample.value))
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    return found


def _add(found: dict[str, float], name: str, value: float) -> None:
    is_known = name in found or (name.startswith(_OURS) and len(found) < _MOST_NAMES)
    if is_known and 0 <= value < _MOST:
        found[name] = found.get(name, 0.0) + value


def mount_counters(values: Mapping[str, float]) -> Counters:
    """Of the metrics of a mount."""

    def value(name: str) -> float:
        return values.get(f"headrace_{name}_total", 0.0)

    return Counters(
        read_bytes=value("read_hit_bytes") + value("read_miss_bytes"),
        remote_bytes=max(value("cluster_read_bytes") - value("cluster_own_node_bytes"), 0.0),
        kernel_bytes=value("passthrough_estimated_bytes"),
        stalled_s=values.get("headrace_read_seconds_sum", 0.0),
    )


def worker_counters(origin_bytes: float, loaded_bytes: float) -> Counters:
    """Of a worker: what it received from origins, and what of that was for loads."""
    return Counters(fetched_bytes=max(origin_bytes - loaded_bytes, 0.0))


def cost_of(grown: Counters, *, is_shared: bool = False) -> DataCost:
    """The cost, from how much all counters grew together."""
    read, remote = (
        round(grown.read_bytes + grown.kernel_bytes),
        round(min(grown.remote_bytes, grown.read_bytes)),
    )
    fetched = round(grown.fetched_bytes)
    peer = remote_hit_bytes(read, remote, fetched)
    return DataCost(
        origin_bytes=fetched,
        peer_bytes=peer,
        local_bytes=hit_bytes(read, fetched) - peer,
        stalled_s=grown.stalled_s,
        is_shared=is_shared,
        is_reckoned=grown.kernel_bytes > 0,
    )


def _advanced(meter: Meter | None, reading: Reading) -> Meter:
    now = reading.counters
    if meter is None:
        return Meter(reading.life, now, Counters() if reading.began_before else now)
    before = meter.last if meter.life == reading.life else Counters()
    return Meter(reading.life, now, meter.grown + now.since(before))

"""What a job's data cost while it runs, looked at again and again; kept in an annotation of the job. Pure.

Counters belong to processes, which come and go. So each is noted with the life of its process: what a process counted
before the job began is not the job's, what a new one counts is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from headrace.jobs.data_cost import Counters, cost_of
from headrace.jobs.views import DataCost
from headrace.kubeflow.names import DATA_COST_ANNOTATION, Content, annotations_of

_VERSION = 1
_MOST_COUNTED = 2.0**70
MOST_SOURCES = 500
"""Annotations of an object have 256 KiB together. Mounts beyond that are not counted."""


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
        """After another pass."""
        meters = dict(self.meters)
        for reading in readings:
            if reading.source in meters or len(meters) < MOST_SOURCES:
                meters[reading.source] = _advanced(meters.get(reading.source), reading)
        return replace(self, meters=meters, is_shared=self.is_shared or is_shared)

    def closed(self) -> Metering:
        """At the end of the job: the counters are needed no more."""
        return Metering(is_shared=self.is_shared, settled=self.cost, is_final=True)


def _advanced(meter: Meter | None, reading: Reading) -> Meter:
    now = reading.counters
    if meter is None:
        return Meter(reading.life, now, Counters() if reading.began_before else now)
    before = meter.last if meter.life == reading.life else Counters()
    return Meter(reading.life, now, meter.grown + now.since(before))


def metering_of(job: Content) -> Metering:
    """What the job notes; an empty metering where it notes nothing that can be read."""
    text = annotations_of(job).get(DATA_COST_ANNOTATION)
    try:
        said = json.loads(text) if text else {}
        return _metering(said) if said.get("version") == _VERSION else Metering()
    except (ValueError, TypeError, KeyError, AttributeError):
        return Metering()


def text_of(metering: Metering) -> str:
    """The annotation: first what people want to know, then what the next pass needs."""
    cost = metering.cost
    said: dict[str, Any] = {"version": _VERSION}
    if cost is not None:
        said |= asdict(cost) | {"stalled_s": round(cost.stalled_s, 3)}
    said |= {"is_shared": metering.is_shared, "is_final": metering.is_final}
    said["meters"] = {
        source: [each.life, _numbers(each.last), _numbers(each.grown)]
        for source, each in metering.meters.items()
    }
    return json.dumps(said, separators=(",", ":"))


def _metering(said: Mapping[str, Any]) -> Metering:
    cost = {each.name: said[each.name] for each in fields(DataCost) if each.name in said}
    return Metering(
        settled=DataCost(**cost) if len(cost) == len(fields(DataCost)) else None,
        meters={
            source: Meter(life, _counters(last), _counters(grown))
            for source, (life, last, grown) in said["meters"].items()
        },
        is_shared=bool(said.get("is_shared")),
        is_final=bool(said.get("is_final")),
    )


def _counters(numbers: Iterable[Any]) -> Counters:
    """Counters of a note. Whoever may change the job may have written them."""
    values = [float(each) for each in numbers]
    if not all(0 <= each < _MOST_COUNTED for each in values):
        raise ValueError("that is no count")
    return Counters(*values)


def _numbers(counters: Counters) -> list[float]:
    return [round(getattr(counters, each.name), 3) for each in fields(counters)]

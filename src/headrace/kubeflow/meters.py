"""The cost of a job's data as its annotation has it: for people, and for the keeper's next reading. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from headrace.jobs.data_cost import Counters, Meter, Metering
from headrace.jobs.views import DataCost
from headrace.kubeflow.names import DATA_COST_ANNOTATION, Content, annotations_of

_VERSION = 2
_MOST_COUNTED = 2.0**70


def metering_of(job: Content) -> Metering:
    """The metering that the job notes; an empty one where it notes nothing that can be read."""
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

"""Events: what people are told when something changes, once for each change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headrace.api.conditions import Condition, DatasetCondition, DatasetConditionType, RuntimeConditionType
from headrace.plan.condition_times import condition_of
from headrace.plan.reasons import MEANINGS, Reason


class EventType(StrEnum):
    """The type of an event: whether a person should act."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """One event, about the object of `kind` of the planned name and namespace."""

    kind: str
    type: EventType
    reason: str
    message: str


_QUIET = {
    Reason.MASTER_STARTING,
    Reason.WORKERS_STARTING,
    Reason.FILES_LISTING,
    Reason.RUNTIME_MISSING,
    Reason.DATASET_MISSING,
    Reason.DELETING,
    Reason.PREDECESSOR_RUNNING,
    Reason.OPERATION_STARTING,
}
"""Reasons that pass by themselves, or that a person knows of."""

_TOLD = (
    DatasetConditionType.READY,
    DatasetConditionType.DEGRADED,
    DatasetConditionType.TERMINATING,
    DatasetConditionType.UPDATING,
    DatasetConditionType.FIELDS_IGNORED,
    DatasetConditionType.CACHE_OVERCOMMITTED,
)
_BAD_WHEN_TRUE = {
    DatasetConditionType.DEGRADED,
    DatasetConditionType.TERMINATING,
    DatasetConditionType.FIELDS_IGNORED,
    RuntimeConditionType.FIELDS_REFUSED,
    DatasetConditionType.CACHE_OVERCOMMITTED,
}


def dataset_events(
    before: tuple[DatasetCondition, ...], after: tuple[DatasetCondition, ...]
) -> Iterator[Event]:
    """An event for each condition of a dataset that turned, or has another reason."""
    ready = condition_of(after, DatasetConditionType.READY)
    for kind in _TOLD:
        new, old = condition_of(after, kind), condition_of(before, kind)
        if kind in _BAD_WHEN_TRUE and new is not None and new.status != "True" and not _is_true(ready):
            # What was wrong with it went with the dataset: no good news.
            continue
        if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
            continue
        if old is None and new.status != "True" and kind is not DatasetConditionType.READY:
            continue
        if not _is_quiet(new.reason or ""):
            yield Event("Dataset", _type_of(kind, new), new.reason or kind.value, new.message or "")


def _is_true(condition: DatasetCondition | None) -> bool:
    return condition is not None and condition.status == "True"


def runtime_events(kind: str, before: tuple[Condition, ...], after: tuple[Condition, ...]) -> Iterator[Event]:
    """An event for each condition of a runtime that turned, and for each time workers became more or fewer."""
    for new in after:
        old = condition_of(before, new.type)
        scaled = new.type.startswith("WorkersScaled")
        if old is not None and old.status == new.status and not (scaled and old.message != new.message):
            continue
        if (old is None or scaled) and new.status != "True":
            continue
        bad = (
            new.status == "True" if new.type in _BAD_WHEN_TRUE else (new.message or "").endswith("not ready.")
        )
        reason = new.reason if new.type in _BAD_WHEN_TRUE else new.type
        yield Event(
            kind, EventType.WARNING if bad else EventType.NORMAL, reason or new.type, new.message or ""
        )


def _type_of(kind: DatasetConditionType, condition: DatasetCondition) -> EventType:
    if kind is DatasetConditionType.UPDATING:
        return EventType.NORMAL
    is_good = (condition.status == "True") != (kind in _BAD_WHEN_TRUE)
    return EventType.NORMAL if is_good else EventType.WARNING


def _is_quiet(reason: str) -> bool:
    return reason in MEANINGS and Reason(reason) in _QUIET

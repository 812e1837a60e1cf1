"""Conditions as they follow on what was said before: a time moves only when what it is the time of has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from headrace.api.conditions import Condition, DatasetCondition, Truth

AnyCondition = TypeVar("AnyCondition", Condition, DatasetCondition)


@dataclass(frozen=True, slots=True)
class Fact:
    """The fact to report under one type."""

    status: Truth
    reason: str
    message: str


def dataset_conditions(
    before: Iterable[DatasetCondition], facts: Mapping[str, Fact], now: datetime
) -> tuple[DatasetCondition, ...]:
    """The conditions of a dataset, in the order in which their types first appeared."""
    old = {condition.type: condition for condition in before}
    types = list(dict.fromkeys([*old, *facts]))
    return tuple(
        _dataset_condition(old.get(each), each, facts[each], now) if each in facts else old[each]
        for each in types
    )


def _dataset_condition(
    old: DatasetCondition | None, condition_type: str, fact: Fact, now: datetime
) -> DatasetCondition:
    if old and _says(old, fact):
        return old
    turned = old is None or old.status != fact.status
    return DatasetCondition(
        type=condition_type,
        status=fact.status,
        reason=fact.reason,
        message=fact.message,
        last_update_time=now,
        last_transition_time=now if turned or old is None else old.last_transition_time,
    )


def conditions(
    before: Iterable[Condition], facts: Mapping[str, Fact], now: datetime
) -> tuple[Condition, ...]:
    """The conditions of a runtime or an operation, in the order in which their types first appeared."""
    old = {condition.type: condition for condition in before}
    types = list(dict.fromkeys([*old, *facts]))
    return tuple(
        _condition(old.get(each), each, facts[each], now) if each in facts else old[each] for each in types
    )


def _condition(old: Condition | None, condition_type: str, fact: Fact, now: datetime) -> Condition:
    if old and _says(old, fact):
        return old
    turned = old is None or old.status != fact.status
    return Condition(
        type=condition_type,
        status=fact.status,
        reason=fact.reason,
        message=fact.message,
        last_probe_time=now,
        last_transition_time=now if turned or old is None else old.last_transition_time,
    )


def _says(condition: Condition | DatasetCondition, fact: Fact) -> bool:
    return (condition.status, condition.reason, condition.message) == (fact.status, fact.reason, fact.message)


def condition_of(found: Iterable[AnyCondition], condition_type: str) -> AnyCondition | None:
    """The condition of a type, if there is one."""
    return next((condition for condition in found if condition.type == condition_type), None)

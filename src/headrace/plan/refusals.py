"""The status of an object that was taken in and makes no sense, with its known facts all the same. Pure.

The API server takes what its schema lets pass, and another release may have kept what this one refuses. Such an object
is told of where people look, and keeps no other from anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from headrace.api.conditions import DatasetConditionType, OperationConditionType
from headrace.api.dataset import Dataset, DatasetPhase, DatasetSpec, DatasetStatus
from headrace.api.kinds import KINDS, OPERATIONS, Operation
from headrace.api.manifests import InvalidObjectsError
from headrace.api.metadata import ObjectMeta
from headrace.api.operations import OperationPhase
from headrace.api.times import format_time, parse_time
from headrace.errors import HeadraceError
from headrace.plan.dataset_events import Event, EventType
from headrace.plan.reasons import Reason, wait

if TYPE_CHECKING:
    from headrace.api.dataload import DataLoad

Content = Mapping[str, Any]
_BEGUN = {OperationPhase.EXECUTING.value, OperationPhase.COMPLETE.value}
_LONGEST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status of such an object, and the events that tell of it."""

    status: dict[str, Any]
    events: tuple[Event, ...] = ()


def refusal_of(kind: str, before: Content | None, error: HeadraceError, now: datetime) -> Refusal:
    """The refusal of a Dataset or an operation. Work that goes on is not reported as failed."""
    status = dict(before or {})
    said = [dict(each) for each in status.get("conditions") or () if isinstance(each, Mapping)]
    condition_type, truth, phase = _verdict(kind, status)
    message = wait(Reason.REFUSED, refusal_text(error)).message
    old = next((each for each in said if each.get("type") == condition_type), {})
    new = {"type": condition_type, "status": truth, "reason": Reason.REFUSED.value, "message": message}
    if {key: old.get(key) for key in new} == new:
        return Refusal(status)
    written = "lastUpdateTime" if kind == "Dataset" else "lastProbeTime"
    turned = old.get("lastTransitionTime") if old.get("status") == truth else None
    new |= {written: format_time(now), "lastTransitionTime": turned or format_time(now)}
    others = [each for each in said if each.get("type") != condition_type]
    status |= {"conditions": [*others, new], **({"phase": phase} if phase else {})}
    return Refusal(status, (Event(kind, EventType.WARNING, Reason.REFUSED.value, message),))


def refusal_text(error: HeadraceError) -> str:
    """Why, in one sentence: each fault with its field."""
    if not isinstance(error, InvalidObjectsError):
        return error.message[:_LONGEST_TEXT]
    faults = "; ".join(": ".join(filter(None, (each.path, each.problem))) for each in error.faults)
    subject = error.faults[0].subject if error.faults else ""
    return f"{subject or 'the object'} makes no sense: {faults}"[:_LONGEST_TEXT]


def dataset_that_leaves(content: Content) -> Dataset:
    """A Dataset by its metadata, and by what was said of it last. Even its name may be one that is not allowed."""
    return Dataset.model_construct(metadata=_metadata(content), spec=DatasetSpec(), status=_status(content))


def operation_that_leaves(content: Content) -> Operation:
    """An operation by its metadata alone: enough to end its work."""
    model = cast("type[DataLoad]", KINDS[content["kind"]].model)
    return model.model_construct(metadata=_metadata(content))


def _metadata(content: Content) -> ObjectMeta:
    metadata = content["metadata"]
    deleted, noted = metadata.get("deletionTimestamp"), metadata.get("annotations")
    return ObjectMeta.model_construct(
        name=metadata["name"],
        namespace=metadata.get("namespace"),
        uid=metadata.get("uid"),
        generation=metadata.get("generation"),
        annotations=dict(noted) if isinstance(noted, Mapping) else {},
        deletion_timestamp=parse_time(deleted) if deleted else None,
    )


def _verdict(kind: str, status: Content) -> tuple[str, str, str]:
    """Type and status of the condition that tells of it, and the phase, if that becomes another one."""
    phase = status.get("phase")
    if kind in OPERATIONS:
        if phase in _BEGUN:
            return OperationConditionType.DEGRADED.value, "True", ""
        return OperationConditionType.FAILED.value, "True", OperationPhase.FAILED.value
    if status.get("runtimes"):
        return DatasetConditionType.DEGRADED.value, "True", ""
    return DatasetConditionType.READY.value, "False", DatasetPhase.FAILED.value


def _status(content: Content) -> DatasetStatus | None:
    try:
        return DatasetStatus.model_validate(content.get("status") or {}, by_alias=True, by_name=False)
    except ValidationError:
        return None

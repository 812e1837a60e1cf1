"""The status of a dataset: its phase, its numbers and its conditions, as true as what was observed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headrace.api.base import Words
from headrace.api.conditions import DatasetConditionType, DatasetReason
from headrace.api.dataset import BoundRuntime, Dataset, DatasetPhase, DatasetStatus
from headrace.api.formats import CALCULATING, format_bytes, format_duration
from headrace.api.ignored import IgnoredField
from headrace.api.kinds import Runtime
from headrace.api.mounts import Mount
from headrace.plan.cache_numbers import cache_states
from headrace.plan.condition_times import Fact, condition_of, dataset_conditions
from headrace.plan.declared import is_leaving
from headrace.plan.observed import Observed
from headrace.plan.reasons import Reason, Wait, deadline_s
from headrace.plan.runtimes import KINDS

READY_MESSAGE = "The ddc runtime is ready."
UPDATING_MESSAGE = "The ddc runtime is updating."
UPDATED_MESSAGE = "The ddc runtime has updated completely."
_UNBINDING = {Reason.RUNTIME_MISSING, Reason.DELETING, Reason.DATASET_NOT_SHARED}
_BOUND = {
    DatasetPhase.BOUND,
    DatasetPhase.UPDATING,
    DatasetPhase.DATA_MIGRATING,
    DatasetPhase.FAILED,
    DatasetPhase.TERMINATING,
}
_MOST_IGNORED = 20
_MOST_REFUSED = 100


@dataclass(frozen=True, slots=True)
class Findings:
    """The planner's findings for the status. `mounted` is empty before the dataset is bound."""

    dataset: Dataset
    observed: Observed
    runtime: Runtime | None = None
    waiting: Wait | None = None
    degraded: Wait | None = None
    terminating: Wait | None = None
    updating: bool = False
    mounted: tuple[Mount, ...] = ()
    ignored: tuple[IgnoredField, ...] = ()
    copies: int = 1
    overcommitted: Wait | None = None

    @property
    def before(self) -> DatasetStatus:
        """The previous status."""
        return self.dataset.status or DatasetStatus()

    @property
    def unbinds(self) -> bool:
        """True when nothing serves the dataset, nor is about to."""
        return self.waiting is not None and self.waiting.reason in _UNBINDING


def was_bound(status: DatasetStatus) -> bool:
    """True once programs could read the dataset, until its runtime goes: it may be Failed or Terminating now."""
    return status.phase in _BOUND and bool(status.runtimes)


def was_listed(status: DatasetStatus) -> bool:
    """True when the files of the dataset were known."""
    return was_bound(status) and status.file_num not in {None, CALCULATING}


def dataset_status(findings: Findings, now: datetime) -> DatasetStatus:
    """The whole status."""
    phase = _phase(findings, now)
    bound = not findings.unbinds and (findings.waiting is None or was_bound(findings.before))
    fields: dict[str, Any] = {
        "phase": phase,
        "conditions": dataset_conditions(findings.before.conditions, _facts(findings, now), now),
        "observed_generation": findings.dataset.metadata.generation,
        "mounts": findings.mounted if bound else (),
        "runtimes": _runtimes(findings) if bound else (),
        "dataset_ref": tuple(sorted(findings.observed.referrers)),
        "operation_ref": _operations(findings.observed),
    }
    fields |= _numbers(findings)
    return DatasetStatus(**{name: value for name, value in fields.items() if value not in (None, (), {})})


def waited_s(findings: Findings, now: datetime) -> float:
    """The time for which the dataset has not been ready."""
    ready = condition_of(findings.before.conditions, DatasetConditionType.READY)
    if ready is None or ready.status == "True" or ready.last_transition_time is None:
        return 0.0
    return max((now - ready.last_transition_time).total_seconds(), 0.0)


def is_overdue(findings: Findings, now: datetime) -> bool:
    """True when the wait has lasted longer than it may."""
    if findings.waiting is None:
        return False
    limit = deadline_s(findings.waiting.reason)
    return limit is not None and waited_s(findings, now) >= limit


def _phase(findings: Findings, now: datetime) -> DatasetPhase:
    if is_leaving(findings.dataset):
        # Whatever else is true of it: who looks at it is to see why nobody may begin to use it.
        return DatasetPhase.TERMINATING
    if findings.unbinds:
        return DatasetPhase.NOT_BOUND
    if findings.terminating is not None:
        # Its runtime is to be deleted: again nobody may begin.
        return DatasetPhase.TERMINATING
    return _phase_of_service(findings, now)


def _phase_of_service(findings: Findings, now: datetime) -> DatasetPhase:
    before = findings.before.phase
    if findings.waiting is None:
        if findings.updating:
            return DatasetPhase.UPDATING
        migrates = bool(findings.observed.operations.get("DataMigrate"))
        return DatasetPhase.DATA_MIGRATING if migrates else DatasetPhase.BOUND
    if is_overdue(findings, now):
        return DatasetPhase.FAILED
    if was_bound(findings.before) and before is not None:
        was = DatasetPhase.BOUND if before is DatasetPhase.TERMINATING else before
        return DatasetPhase.UPDATING if findings.updating else was
    # What failed once stays Failed until it works, whatever it waits for meanwhile.
    return DatasetPhase.FAILED if before is DatasetPhase.FAILED else DatasetPhase.NOT_BOUND


def _facts(findings: Findings, now: datetime) -> Mapping[str, Fact]:
    """What is to be said. A type that was never true is not mentioned until it is."""
    said = {condition.type for condition in findings.before.conditions}
    facts: dict[str, Fact] = {DatasetConditionType.READY: _ready(findings, now)}
    others = {
        DatasetConditionType.UPDATING: _updating(findings),
        DatasetConditionType.DEGRADED: _of_wait(findings.degraded, "Nothing is wrong."),
        DatasetConditionType.TERMINATING: _of_wait(findings.terminating, "The deletion was not asked for."),
        DatasetConditionType.FIELDS_IGNORED: ignored_fact(findings.ignored),
        DatasetConditionType.CACHE_OVERCOMMITTED: _of_wait(findings.overcommitted, "The quotas fit."),
    }
    facts |= {each: fact for each, fact in others.items() if fact.status == "True" or each in said}
    return facts


def _ready(findings: Findings, now: datetime) -> Fact:
    waiting = findings.waiting
    if waiting is None:
        return Fact("True", DatasetReason.READY, READY_MESSAGE)
    return Fact("False", waiting.reason, waiting.message + overdue_text(waiting, waited_s(findings, now)))


def overdue_text(waiting: Wait, waited: float) -> str:
    """Says that a wait has been too long; the same words each time, so that they need not be written again."""
    limit = deadline_s(waiting.reason)
    if not limit or waited < limit:
        return ""
    return f" (it has waited for longer than {duration_text(limit)})"


def duration_text(seconds: float) -> str:
    """`10m0s`."""
    return format_duration(timedelta(seconds=seconds))


def _updating(findings: Findings) -> Fact:
    if findings.updating:
        return Fact("True", DatasetReason.UPDATING, UPDATING_MESSAGE)
    return Fact("False", DatasetReason.READY, UPDATED_MESSAGE)


def _of_wait(waiting: Wait | None, good: str) -> Fact:
    return (
        Fact("True", waiting.reason, waiting.message) if waiting else Fact("False", DatasetReason.READY, good)
    )


def ignored_fact(fields: Iterable[IgnoredField]) -> Fact:
    """Names the fields that are set in vain, and why."""
    found = tuple(fields)
    if not found:
        return Fact("False", "NoFieldsIgnored", "Every field has its effect.")
    return Fact("True", "FieldsIgnored", f"These fields have no effect: {_named(found, _MOST_IGNORED)}")


def refused_fact(fields: Iterable[IgnoredField]) -> Fact:
    """Names the fields that a policy leaves out, and what to do."""
    found = tuple(fields)
    if not found:
        return Fact("False", "NoFieldsRefused", "The administrator's policy allows every field.")
    return Fact(
        "True", "FieldsRefused", f"The administrator's policy leaves out: {_named(found, _MOST_REFUSED)}"
    )


def _named(fields: tuple[IgnoredField, ...], most: int) -> str:
    """Fields with why, those of which the same is to be said together."""
    alike: dict[str, list[str]] = {}
    for field in fields[:most]:
        alike.setdefault(field.why, []).append(field.path)
    words = [f"{', '.join(paths)} ({why})" for why, paths in alike.items()]
    more = f"; and {len(fields) - most} more" if len(fields) > most else ""
    return f"{'; '.join(words)}{more}"


def _numbers(findings: Findings) -> dict[str, Any]:
    """Sizes: of the files as they were listed last, and of the cache as it is told now."""
    before, data = findings.before, findings.observed.data
    if findings.unbinds or findings.runtime is None:
        return {}
    if data is None or data.snapshot_version == 0:
        known = was_listed(before)
        return {
            "ufs_total": before.ufs_total if known else CALCULATING,
            "file_num": before.file_num if known else CALCULATING,
            "cache_states": before.cache_states if known else None,
        }
    return {
        "ufs_total": CALCULATING if findings.updating else format_bytes(data.size_bytes),
        "file_num": CALCULATING if findings.updating else str(data.files),
        "cache_states": cache_states(data, copies=findings.copies),
    }


def _runtimes(findings: Findings) -> tuple[BoundRuntime, ...]:
    runtime = findings.runtime
    if runtime is None:
        return ()
    return (
        BoundRuntime(
            name=runtime.name,
            namespace=runtime.namespace or "default",
            category="Accelerate",
            type=KINDS[type(runtime).__name__].type,
        ),
    )


def _operations(observed: Observed) -> Words:
    return {kind: ",".join(sorted(names)) for kind, names in sorted(observed.operations.items()) if names}

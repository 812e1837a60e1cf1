"""The plan itself, and how it is put together from what was found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.api.dataset import DatasetStatus
from headrace.api.kinds import kind_of
from headrace.api.names import FINALIZERS
from headrace.api.runtime_parts import RuntimeStatus
from headrace.plan.dataset_events import Event, dataset_events, runtime_events
from headrace.plan.dataset_status import Findings, dataset_status, waited_s
from headrace.plan.declared import Declared, is_leaving
from headrace.plan.observed import DataFacts
from headrace.plan.reasons import Reason, deadline_s
from headrace.plan.roles import Role
from headrace.plan.runtime_status import Workforce, runtime_status
from headrace.plan.steps import NO_STEPS, Steps
from headrace.plan.volume import Volume

AT_ONCE_S = 1.0
_MACHINE_S = 3.0
_PERSON_S = 30.0
_DECLARATION_S = 1800.0
_QUIET_S = 30.0
_BUSY_S = 5.0
IN_USE_S = 10.0
_BY_ITSELF = {
    Reason.MASTER_STARTING,
    Reason.FILES_LISTING,
    Reason.WORKERS_STARTING,
    Reason.DELETING,
    Reason.DATASET_REFERENCE_NOT_READY,
}
_BY_DECLARATION = {
    Reason.RUNTIME_MISSING,
    Reason.DATASET_MISSING,
    Reason.DATASET_TAKEN,
    Reason.MOUNTS_MISSING,
    Reason.MOUNTS_OVERLAP,
    Reason.SCHEME_NOT_SUPPORTED,
    Reason.ADDRESS_REFUSED,
    Reason.FOLDER_NOT_OPEN,
    Reason.OPTION_MISSING,
    Reason.DATASET_REFERENCE_MISSING,
    Reason.DATASET_REFERENCE_REFUSED,
    Reason.DATASET_NOT_SHARED,
    Reason.SECRET_MISSING,
    Reason.SECRET_KEY_MISSING,
    Reason.CLAIM_MISSING,
    Reason.CLAIM_PENDING,
    Reason.QUOTA_MISSING,
    Reason.CACHE_FOLDER_NOT_ALLOWED,
    Reason.BACKUP_FOLDER_NOT_ALLOWED,
    Reason.NO_NODE_MATCHES,
    Reason.NODES_TAINTED,
}
"""Waits that end when an object or a node changes, which a backend is told of."""


@dataclass(frozen=True, slots=True)
class Finalizers:
    """Our finalizers that the objects are to have. A backend takes one away last: after roles and volume are gone."""

    dataset: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The wanted roles, and the steps that may be taken now.

    `roles` are all that are to run; `steps` those that may be started, replaced, drained or ended now: a backend takes
    no other step. With `holds`, the declarations cannot be followed, `roles` is empty and what runs goes on as it is.
    With `closes`, the volume is for those who use it already, and for nobody who comes now. With `exceeds`, the workers
    would take more of their nodes than they may, and go on with what they have.
    """

    roles: tuple[Role, ...]
    steps: Steps
    volume: Volume | None
    dataset_status: DatasetStatus | None
    runtime_status: RuntimeStatus | None
    events: tuple[Event, ...]
    finalizers: Finalizers
    requeue_after_s: float
    holds: bool = False
    closes: bool = False
    exceeds: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision before it is put into words."""

    declared: Declared
    findings: Findings | None
    workforce: Workforce | None
    roles: tuple[Role, ...] = ()
    steps: Steps = NO_STEPS
    volume: Volume | None = None
    holds: bool = False
    closes: bool = False
    exceeds: bool = False
    dataset_leaves: bool = False
    runtime_leaves: bool = False


def outcome(decision: Decision, now: datetime, status: DatasetStatus | None = None) -> Plan:
    """The plan. `status` replaces the dataset's status that follows from the findings."""
    declared = decision.declared
    if status is None and decision.findings is not None:
        status = dataset_status(decision.findings, now)
    of_runtime = runtime_status(decision.workforce, now) if decision.workforce else None
    return Plan(
        roles=decision.roles,
        steps=decision.steps,
        volume=decision.volume,
        dataset_status=status,
        runtime_status=of_runtime,
        events=tuple(_events(declared, status, of_runtime)),
        finalizers=_finalizers(decision),
        requeue_after_s=_requeue_after_s(decision, now),
        holds=decision.holds,
        exceeds=decision.exceeds,
        closes=decision.closes or is_leaving(declared.dataset) or is_leaving(declared.runtime),
    )


def _events(declared: Declared, dataset: DatasetStatus | None, runtime: RuntimeStatus | None) -> list[Event]:
    events: list[Event] = []
    if dataset is not None:
        events += dataset_events(declared.dataset_status.conditions, dataset.conditions)
    if runtime is not None and declared.runtime is not None:
        kind = kind_of(declared.runtime).name
        events += runtime_events(kind, declared.runtime_status.conditions, runtime.conditions)
    return events


def _finalizers(decision: Decision) -> Finalizers:
    declared = decision.declared
    of_dataset = (
        (FINALIZERS["Dataset"],) if declared.dataset is not None and not decision.dataset_leaves else ()
    )
    runtime = declared.runtime
    of_runtime = (
        (FINALIZERS[kind_of(runtime).name],) if runtime is not None and not decision.runtime_leaves else ()
    )
    return Finalizers(of_dataset, of_runtime)


def _patience_s(findings: Findings) -> float:
    """How long a wait is left alone. Where nothing runs, there is nothing to see but what is declared."""
    reason = findings.waiting.reason if findings.waiting else None
    if reason in _BY_ITSELF:
        return _MACHINE_S
    return _DECLARATION_S if reason in _BY_DECLARATION and not findings.observed.roles else _PERSON_S


def _requeue_after_s(decision: Decision, now: datetime) -> float:
    """When to reconcile again if nobody reports a change before."""
    if decision.steps:
        return AT_ONCE_S
    findings = decision.findings
    if findings is None:
        return _PERSON_S
    in_use = findings.terminating or (decision.workforce and decision.workforce.terminating)
    requeues = [IN_USE_S] if in_use else []
    data = findings.observed.data
    if findings.updating or (data is not None and data.is_listing):
        requeues.append(_MACHINE_S)
    if findings.waiting is None:
        # Who reads looks at the numbers, too.
        return min([*requeues, _BUSY_S if _is_read(findings.observed.data) else _QUIET_S])
    requeues.append(_patience_s(findings))
    limit = deadline_s(findings.waiting.reason)
    left = (limit or 0.0) - waited_s(findings, now)
    return min([*requeues, left] if left > 0 else requeues)


def _is_read(data: DataFacts | None) -> bool:
    return data is not None and data.read_bytes + data.fetched_bytes > 0

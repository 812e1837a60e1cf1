"""The status of a runtime: how many of each role there are, and the same conditions that users of Fluid know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.api.base import Words
from headrace.api.conditions import RuntimeConditionType
from headrace.api.formats import format_duration
from headrace.api.ignored import ignored_fields
from headrace.api.kinds import Runtime
from headrace.api.runtime_parts import RuntimePhase, RuntimeStatus
from headrace.api.scheduling import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
)
from headrace.plan.condition_times import Fact, condition_of, conditions
from headrace.plan.dataset_status import ignored_fact, refused_fact
from headrace.plan.observed import Observed, RoleState
from headrace.plan.pod_policy import refused_fields
from headrace.plan.reasons import Wait
from headrace.plan.roles import MOUNT_PREFIX, RoleKind

_HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of a role's processes: wanted, running, and ready."""

    desired: int
    current: int
    ready: int

    @property
    def phase(self) -> RuntimePhase:
        """As in Fluid, but for mounts, which are counted as truly as the others."""
        if self.ready >= self.desired:
            return RuntimePhase.READY
        return RuntimePhase.PARTIAL_READY if self.ready else RuntimePhase.NOT_READY

    @property
    def words(self) -> str:
        """The end of a condition's message."""
        return {RuntimePhase.READY: "ready", RuntimePhase.PARTIAL_READY: "partially ready"}.get(
            self.phase, "not ready"
        )


@dataclass(frozen=True, slots=True)
class Workforce:
    """The runtime beside its roles. `waiting` is what the dataset waits for, `degraded` what is wrong with it."""

    runtime: Runtime
    observed: Observed
    wanted: frozenset[str]
    workers: int
    waiting: Wait | None
    degraded: Wait | None
    cache_states: Words
    is_bound: bool
    remounts: bool = False
    tolerations: tuple[Toleration, ...] = ()
    """Those of the dataset."""

    terminating: Wait | None = None

    @property
    def before(self) -> RuntimeStatus:
        """The previous status."""
        return self.runtime.status or RuntimeStatus()

    def counts(self, kind: RoleKind) -> Counts:
        """Of one kind of role. A worker that hands over still counts as there, and not as wanted."""
        facts = [
            each for each in self.observed.roles if each.role == kind and each.state is not RoleState.ENDED
        ]
        ready = sum(each.state is RoleState.READY and each.id in self.wanted for each in facts)
        mounts = sum(role_id.startswith(MOUNT_PREFIX) for role_id in self.wanted)
        desired = {RoleKind.MASTER: 1, RoleKind.WORKER: self.workers}.get(kind, mounts)
        return Counts(desired, len(facts), ready)


def runtime_status(workforce: Workforce, now: datetime) -> RuntimeStatus:
    """The whole status."""
    before = workforce.before
    fields: dict[str, Any] = {
        **_counted(workforce),
        "conditions": conditions(before.conditions, _facts(workforce), now),
        "observed_generation": workforce.runtime.metadata.generation,
        "cache_states": workforce.cache_states,
        "setup_duration": before.setup_duration or _setup_duration(workforce, now),
        "mount_time": _mount_time(workforce, now),
        "cache_affinity": _cache_affinity(workforce),
    }
    return RuntimeStatus(**{name: value for name, value in fields.items() if value not in (None, (), {})})


def _counted(workforce: Workforce) -> dict[str, Any]:
    master, worker, fuse = (
        workforce.counts(kind) for kind in (RoleKind.MASTER, RoleKind.WORKER, RoleKind.MOUNT)
    )
    return {
        "master_phase": master.phase,
        "worker_phase": worker.phase,
        "fuse_phase": fuse.phase,
        "master_reason": _why(master, workforce),
        "worker_reason": _why(worker, workforce),
        "fuse_reason": _why(fuse, workforce),
        "desired_master_number_scheduled": master.desired,
        "current_master_number_scheduled": master.current,
        "master_number_ready": master.ready,
        "desired_worker_number_scheduled": worker.desired,
        "current_worker_number_scheduled": worker.current,
        "worker_number_ready": worker.ready,
        "worker_number_available": worker.ready,
        "worker_number_unavailable": max(worker.desired - worker.ready, 0),
        "desired_fuse_number_scheduled": fuse.desired,
        "current_fuse_number_scheduled": fuse.current,
        "fuse_number_ready": fuse.ready,
        "fuse_number_available": fuse.ready,
        "fuse_number_unavailable": max(fuse.desired - fuse.ready, 0),
    }


def _why(counts: Counts, workforce: Workforce) -> str | None:
    cause = workforce.waiting or workforce.degraded
    if counts.phase is RuntimePhase.READY:
        return None
    if cause is None:
        return f"{counts.ready} of {counts.desired} are ready"
    return f"{cause.reason}: {cause.message}"


def _facts(workforce: Workforce) -> Mapping[str, Fact]:
    """What is to be said; what was never so is not mentioned until it is."""
    said = {condition.type for condition in workforce.before.conditions}
    facts: dict[str, Fact] = {}
    for kind, subject, verb, initialized, ready in _ROLES:
        counts = workforce.counts(kind)
        if counts.current or initialized in said:
            facts[initialized] = Fact(
                "True", f"{subject} {verb} initialized", f"The {subject.lower()} {verb} initialized."
            )
            is_ready = counts.phase is RuntimePhase.READY
            facts[ready] = Fact(
                "True" if is_ready else "False",
                f"{subject} {verb} ready",
                f"The {subject.lower()} {verb} {counts.words}.",
            )
    facts |= _scaled(workforce, said)
    if workforce.terminating is not None:
        waiting = workforce.terminating
        facts[RuntimeConditionType.TERMINATING] = Fact("True", waiting.reason, waiting.message)
    elif RuntimeConditionType.TERMINATING in said:
        facts[RuntimeConditionType.TERMINATING] = Fact(
            "False", "NothingInTheWay", "Nobody is in the way any more."
        )
    ignored = ignored_fact(ignored_fields(workforce.runtime, has_pods=workforce.observed.has_pods))
    if ignored.status == "True" or RuntimeConditionType.FIELDS_IGNORED in said:
        facts[RuntimeConditionType.FIELDS_IGNORED] = ignored
    refused = refused_fact(
        refused_fields(workforce.runtime, workforce.observed.policy, workforce.tolerations)
    )
    if refused.status == "True" or RuntimeConditionType.FIELDS_REFUSED in said:
        facts[RuntimeConditionType.FIELDS_REFUSED] = refused
    return facts


_ROLES = (
    (
        RoleKind.MASTER,
        "Master",
        "is",
        RuntimeConditionType.MASTER_INITIALIZED,
        RuntimeConditionType.MASTER_READY,
    ),
    (
        RoleKind.WORKER,
        "Workers",
        "are",
        RuntimeConditionType.WORKERS_INITIALIZED,
        RuntimeConditionType.WORKERS_READY,
    ),
    (
        RoleKind.MOUNT,
        "Fuses",
        "are",
        RuntimeConditionType.FUSES_INITIALIZED,
        RuntimeConditionType.FUSES_READY,
    ),
)


def _scaled(workforce: Workforce, said: set[str]) -> dict[str, Fact]:
    """Tells of another number of workers than the last status was about."""
    old, new = workforce.before.desired_worker_number_scheduled, workforce.workers
    if old is None or old == new or not said:
        return {}
    kind, other, words = (
        (RuntimeConditionType.WORKERS_SCALED_OUT, RuntimeConditionType.WORKERS_SCALED_IN, "out")
        if new > old
        else (RuntimeConditionType.WORKERS_SCALED_IN, RuntimeConditionType.WORKERS_SCALED_OUT, "in")
    )
    facts: dict[str, Fact] = {
        kind: Fact(
            "True",
            f"Workers scaled {words}",
            f"Workers scaled {words} from {old} replicas to {new} replicas.",
        )
    }
    earlier = condition_of(workforce.before.conditions, other)
    if earlier is not None:
        facts[other] = Fact("False", earlier.reason or "", earlier.message or "")
    return facts


def _setup_duration(workforce: Workforce, now: datetime) -> str | None:
    created = workforce.runtime.metadata.creation_timestamp
    if not workforce.is_bound or workforce.waiting or created is None:
        return None
    return format_duration(now - created)


def _mount_time(workforce: Workforce, now: datetime) -> datetime | None:
    """When the origins that are mounted now were mounted."""
    return now if workforce.remounts else workforce.before.mount_time


def _cache_affinity(workforce: Workforce) -> NodeAffinity | None:
    """The nodes that hold data, and go on holding it. A worker that starts again has what its folder keeps."""
    labels = {node.name: node.labels.get(_HOST, node.name) for node in workforce.observed.nodes}
    staying = (
        each.node
        for each in workforce.observed.roles
        if each.role == RoleKind.WORKER and each.state not in {RoleState.DRAINING, RoleState.ENDED}
    )
    nodes = tuple(sorted({labels.get(node, node) for node in staying if node}))
    if not nodes:
        return None
    here = NodeSelectorRequirement(key=_HOST, operator="In", values=nodes)
    return NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(
            node_selector_terms=(NodeSelectorTerm(match_expressions=(here,)),)
        )
    )

"""The common parts of operations on datasets: when they run, after whom, and their status."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Literal

from pydantic import Field

from headrace.api.base import ApiModel, Count, CrossFault, Flag, Long, Rule, Words
from headrace.api.conditions import ONE_A_TYPE, Condition
from headrace.api.names import Namespace, ObjectName
from headrace.api.scheduling import NodeAffinity
from headrace.api.times import Time


class Policy(StrEnum):
    """The run policy of an operation. `OnEvent` is Fluid's, and is refused here."""

    ONCE = "Once"
    CRON = "Cron"
    ON_EVENT = "OnEvent"


class OperationPhase(StrEnum):
    """The phase of an operation."""

    NONE = ""
    PENDING = "Pending"
    EXECUTING = "Executing"
    COMPLETE = "Complete"
    FAILED = "Failed"


OperationKind = Literal["DataLoad", "DataBackup", "DataMigrate", "DataProcess"]


class ObjectReference(ApiModel):
    """An operation."""

    api_version: str | None = Field(default=None, description="API version of the operation")
    kind: OperationKind = Field(description="Kind of the operation")
    name: ObjectName = Field(description="Name of the operation")
    namespace: Namespace | None = Field(default=None, description="Its namespace; this object's when absent")


class PreferredLabel(ApiModel):
    """A label of nodes that should be alike."""

    name: str = Field(min_length=1, description="Label of the node")
    weight: Count = Field(description="Weight")


class RequiredLabel(ApiModel):
    """A label of nodes that must be alike."""

    name: str = Field(min_length=1, description="Label of the node")


class AffinityStrategy(ApiModel):
    """Placement of the operation relative to an earlier one."""

    depend_on: ObjectReference | None = Field(
        default=None, description="The earlier operation; the one of runAfter when absent"
    )
    policy: Literal["", "Require", "Prefer"] | None = Field(
        default=None, description="Strength of the rule: whether the nodes must or should be alike"
    )
    prefers: tuple[PreferredLabel, ...] = Field(
        default=(), description="Labels that should be alike, for policy Prefer"
    )
    requires: tuple[RequiredLabel, ...] = Field(
        default=(), description="Labels that must be alike, for policy Require"
    )


class RunAfter(ObjectReference):
    """The operation that must be complete before."""

    affinity_strategy: AffinityStrategy | None = Field(
        default=None, description="Place to run, seen from where that one ran"
    )


class WaitingFor(ApiModel):
    """The object that an operation waits for."""

    operation_complete: Flag | None = Field(default=None, description="The operation named in runAfter")


class OperationStatus(ApiModel):
    """Observed state of an operation."""

    phase: OperationPhase | None = Field(default=None, description="Its phase")
    duration: str | None = Field(default=None, description="Duration, such as 3m12s; Unfinished until then")
    conditions: tuple[Condition, ...] = Field(
        default=(), json_schema_extra=ONE_A_TYPE, description="End of the operation, with its reason"
    )
    infos: Words = Field(default_factory=dict, description="Facts of its kind, such as where a backup lies")
    last_schedule_time: Time | None = Field(
        default=None, description="Time of the last start, for policy Cron"
    )
    last_successful_time: Time | None = Field(
        default=None, description="Time of the last success, for policy Cron"
    )
    waiting_for: WaitingFor | None = Field(default=None, description="Object that it waits for")
    node_affinity: NodeAffinity | None = Field(
        default=None, description="Nodes it ran on, for operations after it"
    )
    observed_generation: Long | None = Field(
        default=None, description="Generation of the spec that this status is about"
    )


CRON_RULE = Rule(
    "!(has(self.policy) && self.policy == 'Cron') || (has(self.schedule) && self.schedule != '')",
    "policy Cron needs a schedule",
)
POLICY_FIXED = Rule(
    "(has(self.policy) ? self.policy : 'Once') == (has(oldSelf.policy) ? oldSelf.policy : 'Once')",
    "policy cannot be changed: make a new object",
)


def schedule_faults(policy: Policy, schedule: str | None) -> Iterator[CrossFault]:
    """A schedule exactly for those that have one."""
    if policy is Policy.CRON and not schedule:
        yield CrossFault(("schedule",), 'is missing: policy Cron needs one, like "0 3 * * *"')
    if policy is not Policy.CRON and schedule:
        yield CrossFault(("schedule",), f"has no effect with policy {policy.value}: write policy: Cron")


def run_after_faults(
    kind: str, name: str, namespace: str | None, after: RunAfter | None
) -> Iterator[CrossFault]:
    """Nothing waits for itself."""
    if after and (after.kind, after.name) == (kind, name) and after.namespace in {None, namespace}:
        yield CrossFault(("spec", "runAfter", "name"), "names this object itself: it would wait for ever")


def namespace_faults(own: str | None, target: str | None, place: tuple[str, ...]) -> Iterator[CrossFault]:
    """The dataset lies where the operation does."""
    if own and target and own != target:
        yield CrossFault(place, f"'{target}' is not this object's namespace ({own}): both must be in one")

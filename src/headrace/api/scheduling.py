"""The nodes that may be used: node selectors, affinities and tolerations of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from headrace.api.base import ApiModel, CrossFault, Long, Opaque

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
Effect = Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"]


class NodeSelectorRequirement(ApiModel):
    """One condition on a label (or field) of a node."""

    key: str = Field(description="Label of the node")
    operator: Operator = Field(description="Operator that compares the label with the values")
    values: tuple[str, ...] = Field(
        default=(),
        description="Values to compare with: some for In and NotIn, one number for Gt and Lt, else none",
    )

    def cross_faults(self) -> Iterator[CrossFault]:
        """The number of values fits the operator."""
        place = ("values",)
        if self.operator in {"In", "NotIn"} and not self.values:
            yield CrossFault(place, f"operator {self.operator} needs at least one value")
        if self.operator in {"Exists", "DoesNotExist"} and self.values:
            yield CrossFault(place, f"operator {self.operator} takes no values")
        if self.operator in {"Gt", "Lt"} and (len(self.values) != 1 or not _is_number(self.values[0])):
            yield CrossFault(place, f"operator {self.operator} needs exactly one whole number")


class NodeSelectorTerm(ApiModel):
    """Conditions that must all hold."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = Field(
        default=(), description="Conditions on labels"
    )
    match_fields: tuple[NodeSelectorRequirement, ...] = Field(
        default=(), description="Conditions on fields of the node"
    )


class NodeSelector(ApiModel):
    """Nodes for which at least one term holds."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(min_length=1)] = Field(
        description="A node fits when one of the terms holds"
    )


class PreferredNodes(ApiModel):
    """Nodes that are better than others."""

    weight: Annotated[int, Field(strict=True, ge=1, le=100, json_schema_extra={"format": "int32"})] = Field(
        description="Preference, from 1 to 100"
    )
    preference: NodeSelectorTerm = Field(description="Nodes to choose")


class NodeAffinity(ApiModel):
    """Nodes that must, or should, be used."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = Field(
        default=None, description="Only these nodes"
    )
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] = Field(
        default=(), description="Rather these nodes"
    )


class CacheAffinity(ApiModel):
    """Nodes on which data may be cached."""

    required: NodeSelector | None = Field(
        default=None, description="Only nodes that fit this selector cache data"
    )


class Affinity(ApiModel):
    """Affinity of a pod."""

    node_affinity: NodeAffinity | None = Field(default=None, description="Nodes to choose")
    pod_affinity: Opaque | None = Field(default=None, description="Near which other pods")
    pod_anti_affinity: Opaque | None = Field(default=None, description="Away from which other pods")


class Toleration(ApiModel):
    """A taint of nodes that is put up with."""

    key: str | None = Field(
        default=None, description="Key of the taint; all keys when absent (operator Exists)"
    )
    operator: Literal["", "Exists", "Equal"] | None = Field(
        default=None, description="Equal (default) compares the value, Exists takes any"
    )
    value: str | None = Field(default=None, description="Value of the taint")
    effect: Effect | None = Field(default=None, description="Effect of the taint; all effects when absent")
    toleration_seconds: Long | None = Field(
        default=None, description="Time for which NoExecute is tolerated; for ever when absent"
    )

    def cross_faults(self) -> Iterator[CrossFault]:
        """Key, operator and value fit together."""
        if self.operator == "Exists" and self.value:
            yield CrossFault(("value",), "operator Exists takes no value")
        if not self.key and self.operator != "Exists":
            yield CrossFault(("key",), "without a key the operator must be Exists")


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()

"""The match of a node: node selectors with all their operators, plain labels, taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.api.scheduling import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
)
from headrace.plan.observed import Node, Taint

_NAME_FIELD = "metadata.name"


def fits_selector(node: Node, selector: NodeSelector | None) -> bool:
    """True when one of the terms holds for the node, or there is no selector. A term without conditions never holds."""
    return selector is None or any(_fits_term(node, term) for term in selector.node_selector_terms)


def fits_labels(node: Node, labels: Mapping[str, str]) -> bool:
    """True when the node has all these labels."""
    return all(node.labels.get(key) == value for key, value in labels.items())


def is_tolerated(node: Node, tolerations: Iterable[Toleration], *, running: bool = False) -> bool:
    """True when no taint keeps the role off the node; what runs already, only NoExecute ends."""
    effects = {"NoExecute"} if running else {"NoExecute", "NoSchedule"}
    given = tuple(tolerations)
    return all(_tolerates(taint, given) for taint in node.taints if taint.effect in effects)


def is_unwelcome(node: Node, tolerations: Iterable[Toleration]) -> bool:
    """True when a PreferNoSchedule taint asks to use another node, if there is one."""
    given = tuple(tolerations)
    return any(taint.effect == "PreferNoSchedule" and not _tolerates(taint, given) for taint in node.taints)


def _fits_term(node: Node, term: NodeSelectorTerm) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {_NAME_FIELD: node.name}
    return all(_holds(each, node.labels) for each in term.match_expressions) and all(
        _holds(each, fields) for each in term.match_fields
    )


def _holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)


def _compares(value: str | None, requirement: NodeSelectorRequirement) -> bool:
    """Gt and Lt compare whole numbers; a label that is none never fits."""
    if value is None or not value.removeprefix("-").isdecimal():
        return False
    number, limit = int(value), int(requirement.values[0])
    return number > limit if requirement.operator == "Gt" else number < limit


def _tolerates(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_matches(each, taint) for each in tolerations)


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == taint.value

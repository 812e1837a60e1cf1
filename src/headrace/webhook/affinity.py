"""Node affinity of a pod, made stricter or given preferences without losing what its author wrote. Pure.

Terms are node selector terms as the API has them. Everything here can be done twice: what is there already is not
added again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Term = Mapping[str, Any]
Alternatives = tuple[Term, ...]
"""Terms of which one must hold."""

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = "nodeSelectorTerms"
_CONDITIONS = ("matchExpressions", "matchFields")
_NODE_NAME = "metadata.name"


def preferences(terms: Iterable[Term], weight: int) -> list[dict[str, Any]]:
    """Entries of a preference, one for each term."""
    return [{"weight": weight, "preference": dict(term)} for term in terms]


def missing_preferences(
    present: Sequence[Mapping[str, Any]], wanted: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Those of `wanted` that are not among the present ones, as often as they are wanted."""
    left = Counter(_canonical(each) for each in present)
    missing: list[dict[str, Any]] = []
    for each in wanted:
        name = _canonical(each)
        if left[name]:
            left[name] -= 1
        else:
            missing.append(each)
    return missing


def restricted(required: Mapping[str, Any] | None, alternatives: Alternatives) -> dict[str, Any] | None:
    """A node selector that holds where both `required` (everywhere when absent) and one of the alternatives do.

    `None` when `required` says so already.
    """
    if required is None:
        return {_TERMS: [dict(each) for each in alternatives]}
    terms = required.get(_TERMS) or []
    found = [each for term in terms for each in _both(term, alternatives)]
    return None if found == list(terms) else {**required, _TERMS: found}


def is_pinned(spec: Mapping[str, Any], host_label: str) -> bool:
    """True for the pod of one node: by a node selector for the host, or as a DaemonSet pins its pods."""
    if host_label in (spec.get("nodeSelector") or {}):
        return True
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    terms = required.get(_TERMS) or []
    return bool(terms) and all(_names_a_node(term, host_label) for term in terms)


def _names_a_node(term: Term, host_label: str) -> bool:
    conditions = [(each, _NODE_NAME) for each in term.get("matchFields") or []]
    conditions += [(each, host_label) for each in term.get("matchExpressions") or []]
    return any(
        each.get("key") == key and each.get("operator") == "In" and len(each.get("values") or []) == 1
        for each, key in conditions
    )


def _both(term: Term, alternatives: Alternatives) -> list[Term]:
    """The term, together with each of the alternatives."""
    # An empty term holds nowhere; with a condition it would hold somewhere.
    if not any(term.get(part) for part in _CONDITIONS):
        return [term]
    if any(_implies(term, each) for each in alternatives):
        return [term]
    return [_joined(term, each) for each in alternatives]


def _implies(term: Term, other: Term) -> bool:
    return all(
        _canonical(condition) in {_canonical(each) for each in term.get(part) or []}
        for part in _CONDITIONS
        for condition in other.get(part) or []
    )


def _joined(term: Term, other: Term) -> Term:
    parts = {part: [*(term.get(part) or []), *(other.get(part) or [])] for part in _CONDITIONS}
    return {**term, **{part: conditions for part, conditions in parts.items() if conditions}}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

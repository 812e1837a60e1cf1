"""The homes of datasets: from Datasets, runtimes and claims as the API server has them. Pure.

Status is written by others, so it is checked here: a term that the API server would refuse would have it refuse the
pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from headrace.api.mounts import scheme_of
from headrace.api.scheduling import NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm
from headrace.plan.mount_addresses import DATASET, dataset_of
from headrace.webhook.affinity import Alternatives, Term

Content = Mapping[str, Any]
Objects = Mapping[tuple[str, str], Content]
"""Objects of a kind, by namespace and name."""

MANAGED_LABEL = "app.kubernetes.io/managed-by"
OPERATOR = "headrace-operator"
"""What the label says on claims that the operator made. Such a claim has the name of its dataset."""

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_VALUE = re.compile(rf"({_NAME})?")
_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_KEY = re.compile(rf"({_PREFIX}/)?{_NAME}")


def homes_of(
    namespace: str,
    claims: Iterable[str],
    *,
    datasets: Objects,
    runtimes: Iterable[Objects],
    volumes: Objects,
) -> dict[str, Alternatives]:
    """The claims that belong to datasets, each with the terms of the nodes that hold its data.

    A claim of a dataset's name that somebody else made is not the dataset's.
    """
    searched = tuple(runtimes)
    return {
        claim: _terms_of(_cluster_of(datasets[namespace, claim], (namespace, claim)), searched)
        for claim in claims
        if (namespace, claim) in datasets and _is_own(volumes.get((namespace, claim)))
    }


def _is_own(volume: Content | None) -> bool:
    labels = ((volume or {}).get("metadata") or {}).get("labels") or {}
    return bool(labels.get(MANAGED_LABEL) == OPERATOR)


def _cluster_of(dataset: Content, own: tuple[str, str]) -> tuple[str, str]:
    """The dataset whose workers hold the data: another one's for a dataset that only refers to it."""
    mounts = (dataset.get("spec") or {}).get("mounts") or []
    address = mounts[0].get("mountPoint", "") if len(mounts) == 1 else ""
    if scheme_of(address) != DATASET:
        return own
    try:
        namespace, _, name = dataset_of(address)[0].partition("/")
    except ValueError:  # an address without a name, which the planner complains about
        return own
    return namespace, name


def _terms_of(key: tuple[str, str], runtimes: Iterable[Objects]) -> Alternatives:
    for objects in runtimes:
        if key in objects:
            return terms_of((objects[key].get("status") or {}).get("cacheAffinity"))
    return ()


def terms_of(cache_affinity: Any) -> Alternatives:
    """The terms of a runtime's `cacheAffinity` that a pod may have; none when it makes no sense."""
    if not isinstance(cache_affinity, Mapping):
        return ()
    try:
        affinity = NodeAffinity.model_validate(cache_affinity, by_alias=True, by_name=False)
    except ValidationError:
        return ()
    required = affinity.required_during_scheduling_ignored_during_execution
    terms = (_term(each) for each in required.node_selector_terms) if required else ()
    return tuple(term for term in terms if term is not None)


def _term(term: NodeSelectorTerm) -> Term | None:
    """The term with nothing empty in it. `None` for one that holds nowhere, or that the API server would refuse."""
    # Fields are not for us: the planner tells of labels, and a field allows a single value only.
    conditions = [_condition(each) for each in term.match_expressions]
    if term.match_fields or not conditions or None in conditions:
        return None
    return {"matchExpressions": conditions}


def _condition(requirement: NodeSelectorRequirement) -> dict[str, Any] | None:
    prefix = requirement.key.rpartition("/")[0]
    if not _KEY.fullmatch(requirement.key) or len(prefix) > 253:
        return None
    found: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
    # No node has a label with such a value, so nothing is lost with it.
    values = [value for value in requirement.values if _VALUE.fullmatch(value)]
    if requirement.values and not values:
        return None
    return found | ({"values": values} if values else {})

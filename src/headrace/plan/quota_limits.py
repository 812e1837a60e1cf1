"""The limits of a node's room for caches of all datasets: the administrator's limits, and what exceeds them.

A quota that a disk has no room for stops nothing, since a cache takes what fits. A limit does: nobody's cache grows at
the expense of what else runs on a node, or of other teams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.api.formats import format_bytes
from headrace.plan.observed import Node, OtherWorker
from headrace.plan.policy import Policy
from headrace.plan.roles import CacheFolder


def quotas_of(folders: Iterable[CacheFolder]) -> dict[str, int]:
    """The bytes of a worker's levels, by medium."""
    found: dict[str, int] = {}
    for folder in folders:
        found[folder.medium] = found.get(folder.medium, 0) + folder.quota_bytes
    return found


def exceeded_limits(
    node: Node,
    cache: Iterable[CacheFolder],
    others: Iterable[OtherWorker],
    namespace: str,
    policy: Policy | None,
) -> Iterator[str]:
    """The limits of a node that a worker with this cache would exceed: `SSD (150.00GiB)`."""
    if policy is None:
        return
    others = tuple(others)
    own = [other for other in others if other.namespace == namespace]
    for medium, wanted in quotas_of(cache).items():
        for limits, beside, whose in (
            (policy.cache_per_node, others, ""),
            (policy.namespace_cache_per_node, own, f" for namespace {namespace}"),
        ):
            limit = limits.of(medium, node.memory_bytes)
            if limit is not None and wanted + sum(each.quotas.get(medium, 0) for each in beside) > limit:
                yield f"{medium} ({format_bytes(limit)}{whose})"

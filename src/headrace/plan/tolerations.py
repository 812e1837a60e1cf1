"""Taints of nodes that a tenant's pods may put up with. The administrator says for whom a taint keeps a
node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.api.scheduling import Toleration
from headrace.plan.policy import Policy

_ASK = "have the administrator add it to policy.tolerations of the chart's values"


def allowed_tolerations(asked: Iterable[Toleration], policy: Policy | None) -> tuple[Toleration, ...]:
    """The tolerations that the policy takes; all of them where there is none."""
    return tuple(each for each in asked if policy is None or policy.takes_taint(each.key))


def refused_tolerations(asked: Iterable[Toleration], policy: Policy) -> Iterator[tuple[int, str]]:
    """The numbers of those that it does not take, each with why."""
    for number, each in enumerate(asked):
        if not policy.takes_taint(each.key):
            yield number, fault_of_taint(each.key)


def fault_of_taint(key: str | None) -> str:
    """Why a taint with that key may not be put up with; without a key all taints are meant."""
    return f"taint {key[:317]}: {_ASK}" if key else "all taints: name the keys of those that are meant"

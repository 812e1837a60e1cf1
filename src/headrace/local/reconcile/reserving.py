"""Which nodes the workers of each dataset have: those that run, and those that were planned and do not run yet.

Datasets are looked at at the same time. What one was given must be seen by the next before its processes are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.local.roles import RoleRecord
from headrace.plan.observed import OtherWorker
from headrace.plan.outcome import Plan
from headrace.plan.roles import RoleKind


class Reservations:
    """The nodes that were planned last for the workers of each dataset. Used from one event loop."""

    def __init__(self) -> None:
        self._nodes: dict[str, frozenset[str]] = {}

    def note(self, title: str, planned: Plan) -> None:
        """What was planned for a dataset. One that holds starts nothing: it has the nodes on which its workers run."""
        workers = [role for role in planned.roles if role.kind is RoleKind.WORKER]
        self._nodes[title] = frozenset(role.node for role in workers if role.node)
        if not workers:
            self.forget(title)

    def forget(self, title: str) -> None:
        """The dataset is gone."""
        self._nodes.pop(title, None)

    def others(
        self, title: str, records: Iterable[RoleRecord], exclusive: frozenset[str]
    ) -> Mapping[str, tuple[OtherWorker, ...]]:
        """Workers of the other datasets, by node. `exclusive` are the datasets that share no node."""
        running = {
            (record.order.node, f"{record.order.namespace}/{record.order.dataset}")
            for record in records
            if record.order.kind == "worker"
        }
        planned = {(node, other) for other, nodes in self._nodes.items() for node in nodes}
        found: dict[str, tuple[OtherWorker, ...]] = {}
        for node, other in sorted(running | planned):
            if other != title:
                found[node] = (*found.get(node, ()), OtherWorker(other, other in exclusive))
        return found

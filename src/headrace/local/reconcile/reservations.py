"""The nodes of each dataset's workers: those that run, and those that were planned and do not run yet.

Datasets are reconciled at the same time. The nodes given to one dataset must be seen by the next before its processes
are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.local.processes.role_processes import RoleRecord
from headrace.plan.observed import OtherWorker
from headrace.plan.outcome import Plan
from headrace.plan.roles import RoleKind


class Reservations:
    """The nodes that were planned last for the workers of each dataset. Used from one event loop."""

    def __init__(self) -> None:
        self._nodes: dict[str, frozenset[str]] = {}
        self._held: dict[str, frozenset[str]] = {}
        self._lacking: set[str] = set()

    def note(self, title: str, planned: Plan, wanted: int = 0) -> None:
        """Records the nodes planned for a dataset that wants so many workers.

        One that holds starts nothing: it has the nodes on which its workers run, and lacks none.
        """
        workers = [role for role in planned.roles if role.kind is RoleKind.WORKER]
        self._nodes[title] = frozenset(role.node for role in workers if role.node)
        if not workers:
            self.forget(title)
        if len(workers) < wanted and not planned.holds:
            self._lacking.add(title)
        else:
            self._lacking.discard(title)

    def forget(self, title: str) -> None:
        """The dataset is gone."""
        self._nodes.pop(title, None)
        self._lacking.discard(title)

    def see(self, title: str, records: Iterable[RoleRecord]) -> None:
        """Records the nodes of a dataset before it is reconciled."""
        running = frozenset(record.order.node for record in records if _worker_of(record) == title)
        self._held[title] = self._held.get(title, frozenset()) | running

    def gave_up(self, title: str, records: Iterable[RoleRecord]) -> bool:
        """True when the dataset has given up a node since it was seen: neither runs there nor is to run."""
        running = {record.order.node for record in records if _worker_of(record) == title}
        held, before = running | self._nodes.get(title, frozenset()), self._held.get(title, frozenset())
        if held:
            self._held[title] = frozenset(held)
        else:
            self._held.pop(title, None)
        return bool(before - held)

    def lacking(self, title: str) -> frozenset[str]:
        """The other datasets that have fewer workers than they want."""
        return frozenset(self._lacking - {title})

    def others(
        self, title: str, records: Iterable[RoleRecord], exclusive: frozenset[str]
    ) -> Mapping[str, tuple[OtherWorker, ...]]:
        """Workers of the other datasets, by node. `exclusive` are the datasets that share no node."""
        running = {(record.order.node, other) for record in records if (other := _worker_of(record))}
        planned = {(node, other) for other, nodes in self._nodes.items() for node in nodes}
        found: dict[str, tuple[OtherWorker, ...]] = {}
        for node, other in sorted(running | planned):
            if other != title:
                found[node] = (*found.get(node, ()), OtherWorker(other, other in exclusive))
        return found


def _worker_of(record: RoleRecord) -> str | None:
    """The dataset whose worker it is; `None` for other roles."""
    order = record.order
    return f"{order.namespace}/{order.dataset}" if order.kind == "worker" else None

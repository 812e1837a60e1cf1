"""The nodes as a program sees them that is to read datasets: who holds the data, who is there already."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.api.kinds import RUNTIMES, Runtime
from headrace.api.scheduling import Toleration
from headrace.errors import HeadraceError
from headrace.local.context import BackendContext
from headrace.local.datasets.masters import Masters
from headrace.local.nodes.node_capacity import node_facts
from headrace.local.reconciler import Dataset
from headrace.local.store.object_store import Selection
from headrace.plan.master_status import cached_by_node
from headrace.plan.mounting import may_mount
from headrace.plan.node_choice import Candidate
from headrace.plan.observed import Node
from headrace.plan.runtimes import Wanted, wanted_of
from headrace.plan.selectors import fits_labels, is_tolerated

_ANSWER_S = 3.0


@dataclass(frozen=True, slots=True)
class NodeWish:
    """The demands of a program on its node. One that is named may have any taints, as in Kubernetes."""

    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidate nodes of one backend."""

    context: BackendContext
    masters: Masters

    async def all(self, keys: Sequence[Dataset], wish: NodeWish) -> list[Candidate]:
        """All nodes, for a program that reads these datasets."""
        wanted = await asyncio.to_thread(self._wanted, keys)
        shares = await self._shares(keys)
        workers = [
            record.order.node
            for record in self.context.roles.all()
            if record.order.kind == "worker" and (record.order.namespace, record.order.dataset) in keys
        ]
        users = [consumer.node for consumer in self.context.consumers.all()]
        return [
            Candidate(
                fact.name,
                is_ready=fact.is_ready,
                is_allowed=_is_wished(fact, wish) and all(may_mount(fact, each) for each in wanted),
                workers=workers.count(fact.name),
                cached_share=shares.get(fact.name, 0.0),
                users=users.count(fact.name),
            )
            for fact in node_facts(self.context.nodes.all(), {})
        ]

    def _wanted(self, keys: Sequence[Dataset]) -> list[Wanted]:
        """What the runtimes of the datasets say of mounts."""
        records, _ = self.context.store.select(Selection(RUNTIMES))
        return [
            wanted_of(cast("Runtime", thing))
            for record in records
            if (record.reference.namespace, record.reference.name) in keys and (thing := record.understood())
        ]

    async def _shares(self, keys: Sequence[Dataset]) -> Mapping[str, float]:
        """How much of all that is cached of the datasets is on each node."""
        statuses = await asyncio.gather(*(self._status(key) for key in keys))
        cached: dict[str, int] = {}
        for status in statuses:
            for node, held in cached_by_node(status).items():
                cached[node] = cached.get(node, 0) + held
        total = sum(cached.values())
        return {node: held / total for node, held in cached.items()} if total else {}

    async def _status(self, key: Dataset) -> Mapping[str, Any] | None:
        try:
            async with asyncio.timeout(_ANSWER_S), await self.masters.client("/".join(key)) as client:
                return await client.status()
        except (HeadraceError, TimeoutError, OSError):
            return None


def _is_wished(node: Node, wish: NodeWish) -> bool:
    if wish.name is not None and node.name != wish.name:
        return False
    return fits_labels(node, wish.labels) and (wish.name is not None or is_tolerated(node, wish.tolerations))

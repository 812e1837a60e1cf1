"""The nodes of each dataset's workers: where pods run, and where they were planned and do not run yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.operator.desired_state import component_of, is_exclusive, noted_in, noted_quotas
from headrace.operator.mirror import Content, Index, Mirror
from headrace.operator.rendering.naming import NODES_ANNOTATION, dataset_name_of
from headrace.plan.observed import OtherWorker
from headrace.plan.outcome import Plan
from headrace.plan.quota_limits import quotas_of
from headrace.plan.roles import RoleKind


def _sent(workload: Content) -> list[str]:
    """The nodes to which the workers of a set were sent."""
    noted = noted_in(workload, NODES_ANNOTATION) if component_of(workload) == RoleKind.WORKER else None
    return [str(each) for each in noted] if isinstance(noted, list) else []


def _running(pod: Content) -> list[str]:
    node = pod["spec"]["nodeName"]
    return [node] if node and component_of(pod) == RoleKind.WORKER else []


_SENT, _RUNNING = Index("StatefulSet", _sent), Index("Pod", _running)


class Reservations:
    """The nodes that were planned last for the workers of each dataset. Used from one event loop.

    Datasets are reconciled at the same time. The nodes given to one dataset must be seen by the next before its set is
    applied; after a restart of the operator, the applied set tells the rest.
    """

    def __init__(self, mirror: Mirror, namespace: str) -> None:
        self._mirror, self._namespace = mirror, namespace
        self._planned: dict[str, frozenset[str]] = {}
        self._quotas: dict[str, Mapping[str, int]] = {}
        self._by_node: defaultdict[str, set[str]] = defaultdict(set)

    def note(self, title: str, planned: Plan) -> None:
        """Records the nodes planned for a dataset. Quotas that its workers do not get do not count."""
        workers = [role for role in planned.roles if role.kind is RoleKind.WORKER and role.node]
        nodes = frozenset(role.node for role in workers if role.node)
        # Workers that are being ended keep what they have until they are gone.
        known = quotas_of(workers[0].cache) if workers and not planned.exceeds else self.quotas(title)
        self.forget(title)
        self._quotas[title] = known
        if nodes:
            self._planned[title] = nodes
            for node in nodes:
                self._by_node[node].add(title)

    def forget(self, title: str) -> None:
        """Nobody declares the dataset any more."""
        self._quotas.pop(title, None)
        for node in self._planned.pop(title, ()):
            self._by_node[node].discard(title)

    def others(self, title: str) -> Mapping[str, tuple[OtherWorker, ...]]:
        """Workers of the other datasets, by node: as they are whenever one asks for a node."""
        return Others(self, title)

    def on(self, node: str) -> set[str]:
        """The datasets with workers on a node, as `namespace/name`."""
        sent = {_title(content) for content in self._mirror.having(_SENT, node)}
        running = {_title(content) for content in self._mirror.having(_RUNNING, node)}
        # What was planned since says more than what was applied.
        return {each for each in sent if each not in self._planned} | self._by_node[node] | running

    def quotas(self, title: str) -> Mapping[str, int]:
        """The bytes that each worker of a dataset may keep, by medium: as planned last, or as it was started."""
        planned = self._quotas.get(title)
        return planned if planned is not None else noted_quotas(self._mirror, self._namespace, title)

    def is_exclusive(self, title: str) -> bool:
        """True for a dataset whose workers share no node."""
        return is_exclusive(self._mirror, title)

    @property
    def nodes(self) -> list[str]:
        """All nodes of the cluster."""
        return [content["metadata"]["name"] for content in self._mirror.all("Node")]


@dataclass(frozen=True, slots=True)
class Others(Mapping[str, tuple[OtherWorker, ...]]):
    """The workers of all datasets but one. Nobody goes through all of them for a few nodes."""

    reservations: Reservations
    title: str

    def __getitem__(self, node: str) -> tuple[OtherWorker, ...]:
        titles = sorted(self.reservations.on(node) - {self.title, ""})
        if not titles:
            raise KeyError(node)
        return tuple(
            OtherWorker(each, self.reservations.is_exclusive(each), self.reservations.quotas(each))
            for each in titles
        )

    def __iter__(self) -> Iterator[str]:
        return (node for node in self.reservations.nodes if self.reservations.on(node) - {self.title, ""})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _title(content: Content) -> str:
    name = dataset_name_of(content["metadata"])
    return f"{content['metadata']['namespace']}/{name}" if name else ""

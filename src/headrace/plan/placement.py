"""On which node each worker runs. Running roles stay where they are; the rest goes where it fits, one worker a node.

A worker moves only when its node is gone, or no longer fits what was declared. When workers become fewer, the last go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headrace.api.dataset import Dataset, Placement
from headrace.api.scheduling import Toleration
from headrace.plan.node_names import natural_order, shown_names
from headrace.plan.observed import Node, Observed, RoleState
from headrace.plan.policy import Policy
from headrace.plan.quota_limits import exceeded_limits
from headrace.plan.quota_room import lacking_room
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.roles import CacheFolder, worker_index
from headrace.plan.runtimes import Place
from headrace.plan.selectors import fits_labels, fits_selector, is_tolerated, is_unwelcome
from headrace.plan.tolerations import allowed_tolerations

Rule = Callable[[Node], bool]


@dataclass(frozen=True, slots=True)
class WorkerRules:
    """The nodes that the workers of a dataset may use. `allowed` are those that have the volumes of its claims."""

    dataset: Dataset
    place: Place
    cache: tuple[CacheFolder, ...]
    allowed: frozenset[str] | None = None
    policy: Policy | None = None

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """Those of the dataset, and those of the role, as far as the policy takes them."""
        asked = (*self.dataset.spec.tolerations, *self.place.tolerations)
        return allowed_tolerations(asked, self.policy)

    def matches(self, node: Node) -> bool:
        """Selectors and the places of volumes."""
        affinity = self.dataset.spec.node_affinity
        return (
            fits_selector(node, affinity.required if affinity else None)
            and fits_labels(node, self.place.node_selector)
            and (self.allowed is None or node.name in self.allowed)
        )


@dataclass(frozen=True, slots=True)
class Placed:
    """The node of each worker that has one, by its index; and why the others have none."""

    nodes: Mapping[int, str]
    lacking: Wait | None = None
    exceeds: bool = False
    """True where workers that run would take more of their nodes than they may: they go on as they are."""


def place_workers(count: int, rules: WorkerRules, observed: Observed) -> Placed:
    """The nodes of `count` workers."""
    nodes = _staying(count, rules, observed)
    full = _full(nodes.values(), count, rules, observed)
    missing = [index for index in range(count) if index not in nodes]
    stages = _stages(rules, observed)
    free = [node for node in observed.nodes if node.name not in nodes.values()]
    candidates = free
    free, lacking = _narrowed(free, stages, missing=len(missing), count=count)
    if lacking is not None and lacking.reason is Reason.NODES_FULL:
        lacking = _with_limits(lacking, candidates, rules, observed)
    free.sort(key=lambda node: _preference(node, rules, observed))
    nodes |= {index: node.name for index, node in zip(missing, free, strict=False)}
    return Placed(nodes, full or lacking, exceeds=full is not None)


def _full(staying: Iterable[str], count: int, rules: WorkerRules, observed: Observed) -> Wait | None:
    """What is to be said of nodes whose workers would exceed a limit by now: their quotas have grown, or it shrank."""
    by_name = {node.name: node for node in observed.nodes}
    over = {name: words for name in staying if (words := _exceeded(by_name[name], rules, observed))}
    if not over:
        return None
    more = sorted({word for words in over.values() for word in words})
    what = f"{len(over)} of {count} workers stay as they are: their quotas are more than the administrator allows"
    return wait(Reason.NODES_FULL, f"{what} of {', '.join(more)} on {shown_names(list(over))}")


def _exceeded(node: Node, rules: WorkerRules, observed: Observed) -> list[str]:
    others = observed.others.get(node.name, ())
    namespace = rules.dataset.metadata.namespace or "default"
    return list(exceeded_limits(node, rules.cache, others, namespace, observed.policy))


def _staying(count: int, rules: WorkerRules, observed: Observed) -> dict[int, str]:
    """Workers that run where they may."""
    by_name = {node.name: node for node in observed.nodes}
    staying: dict[int, str] = {}
    for facts in sorted(observed.roles, key=lambda facts: worker_index(facts.id)):
        index, node = worker_index(facts.id), by_name.get(facts.node or "")
        if not 0 <= index < count or node is None or facts.state is RoleState.ENDED:
            continue
        fits = rules.matches(node) and is_tolerated(node, rules.tolerations, running=True)
        if fits and node.name not in staying.values():
            staying[index] = node.name
    return staying


def _stages(rules: WorkerRules, observed: Observed) -> list[tuple[Reason, Rule]]:
    """What a node must fulfil to get a worker, in the order in which a person should hear of it."""
    exclusive = rules.dataset.spec.placement is not Placement.SHARED
    namespace = rules.dataset.metadata.namespace or "default"
    # Else whoever comes first has the nodes, with a dataset of nothing.
    spaces = observed.policy is not None and observed.policy.exclusive_placement == "Namespace"

    def is_free(node: Node) -> bool:
        others = observed.others.get(node.name, ())
        near = [other for other in others if not spaces or other.namespace == namespace]
        return not near if exclusive else not any(other.is_exclusive for other in near)

    def has_room(node: Node) -> bool:
        return not _exceeded(node, rules, observed)

    return [
        (Reason.NO_NODE_MATCHES, rules.matches),
        (Reason.NODES_TAINTED, lambda node: is_tolerated(node, rules.tolerations)),
        (Reason.NODES_NOT_READY, lambda node: node.is_ready),
        (Reason.NODES_TAKEN, is_free),
        (Reason.NODES_FULL, has_room),
    ]


def _narrowed(
    free: list[Node], stages: Iterable[tuple[Reason, Rule]], *, missing: int, count: int
) -> tuple[list[Node], Wait | None]:
    """The nodes that pass all stages, and the first stage that leaves too few."""
    lacking = None
    for reason, rule in stages:
        passed = [node for node in free if rule(node)]
        if lacking is None and len(passed) < missing:
            failed = [node.name for node in free if not rule(node)]
            lacking = wait(reason, _lacking_text(reason, missing - len(passed), count, failed))
        free = passed
    return free, lacking


def _with_limits(lacking: Wait, nodes: Iterable[Node], rules: WorkerRules, observed: Observed) -> Wait:
    """The same with the limits, which a person needs for another quota."""
    limits = sorted({word for node in nodes for word in _exceeded(node, rules, observed)})
    return Wait(lacking.reason, f"limits are reached, of {', '.join(limits)}: {lacking.message}")


def _lacking_text(reason: Reason, lacking: int, count: int, failed: list[str]) -> str:
    about = {
        Reason.NO_NODE_MATCHES: "too few nodes match",
        Reason.NODES_TAINTED: "taints keep them off",
        Reason.NODES_NOT_READY: "nodes that match are not ready:",
        Reason.NODES_TAKEN: "workers of other datasets are on",
        Reason.NODES_FULL: "their quotas and those of others would be more than the administrator allows on",
    }[reason]
    names = "" if reason is Reason.NO_NODE_MATCHES or not failed else f" {shown_names(failed)}"
    return f"{lacking} of {count} workers have no node, {about}{names}"


def _preference(
    node: Node, rules: WorkerRules, observed: Observed
) -> tuple[bool, bool, int, list[tuple[int, str]]]:
    """A node without room for the quota is used where there is no other: its cache holds what fits."""
    crowd = len(observed.others.get(node.name, ()))
    has_room = not lacking_room([(node, rules.cache)])
    return is_unwelcome(node, rules.tolerations), not has_room, crowd, natural_order(node.name)

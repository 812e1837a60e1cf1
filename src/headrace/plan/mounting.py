"""On which nodes a dataset is mounted: those of its workers, and those where somebody uses it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.plan.node_names import shown_names
from headrace.plan.observed import Node, Observed, RoleFacts, RoleState
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.roles import RoleKind
from headrace.plan.runtimes import Wanted
from headrace.plan.selectors import fits_labels
from headrace.plan.volume import Volume


@dataclass(frozen=True, slots=True)
class Mounted:
    """The nodes, and why a node that needs a mount gets none."""

    nodes: frozenset[str]
    refused: Wait | None = None


def place_mounts(wanted: Wanted, workers: frozenset[str], observed: Observed) -> Mounted:
    """The places of mounts. With clean policy OnDemand only where somebody uses the dataset."""
    allowed = {node.name for node in observed.nodes if may_mount(node, wanted)}
    used = used_nodes(observed)
    there = _mounted_now(observed)
    nodes = (used | (workers if wanted.mounts_at_workers else frozenset())) & allowed
    if wanted.keeps_mounts:
        nodes |= there & allowed
    # What is used stays mounted, even where nothing new would be.
    nodes |= there & used
    return Mounted(frozenset(nodes), _refused(used - nodes, observed))


def place_users_mounts(observed: Observed) -> Mounted:
    """The places of the mounts of a dataset that only refers to another: where it is used, and where that one is at
    home."""
    names = {node.name for node in observed.nodes}
    return Mounted(frozenset((used_nodes(observed) | observed.hosts) & names))


def used_nodes(observed: Observed) -> frozenset[str]:
    """Nodes where somebody uses the volume now."""
    return frozenset(consumer.node for consumer in observed.users)


def users_text(observed: Observed) -> str:
    """The users of the volume and their nodes, for people."""
    nodes = {
        consumer.user: {each.node for each in observed.users if each.user == consumer.user}
        for consumer in observed.users
    }
    users = [f"{user} on {shown_names(nodes[user])}" for user in sorted(nodes)]
    more = f" and {len(users) - 5} more" if len(users) > 5 else ""
    return ", ".join(users[:5]) + more


def volume_in_the_way(volume: Volume | None, observed: Observed) -> Wait | None:
    """Why programs do not get the volume that they are to have."""
    facts = observed.volume
    if volume is None or facts is None:
        return None
    if facts.stranger:
        return wait(Reason.VOLUME_TAKEN, f"{facts.stranger} is not the dataset's")
    differences = facts.differences(volume)
    if not differences or not observed.users:
        return None
    return wait(
        Reason.VOLUME_OUTDATED,
        f"the volume {' and '.join(differences)}, and is in use by {users_text(observed)}",
    )


def may_mount(node: Node, wanted: Wanted) -> bool:
    """True when the runtime lets the dataset be mounted there."""
    return not wanted.no_mounts and fits_labels(node, wanted.fuse.node_selector)


def _mounted_now(observed: Observed) -> frozenset[str]:
    return frozenset(facts.node for facts in observed.roles if _is_mount(facts) and facts.node)


def _is_mount(facts: RoleFacts) -> bool:
    return facts.role == RoleKind.MOUNT and facts.state is not RoleState.ENDED


def _refused(nodes: frozenset[str], observed: Observed) -> Wait | None:
    if not nodes:
        return None
    node = min(nodes)
    users = sorted({consumer.user for consumer in observed.users if consumer.node == node})
    return wait(
        Reason.MOUNT_NOT_ALLOWED,
        f"{users[0]} uses the dataset on {node}, which the runtime's fuse part excludes",
    )

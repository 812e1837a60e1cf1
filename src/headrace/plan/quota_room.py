"""The check that the quotas of a dataset's caches fit on the disks and in the memory of their nodes, and the message if
not.

A quota that does not fit stops nothing: a cache that finds its disk full takes in nothing more, and reads go on from
the storage. Nobody should have to find out from that, though.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from headrace.api.conditions import DatasetCondition, DatasetConditionType
from headrace.api.formats import format_bytes
from headrace.plan.condition_times import condition_of
from headrace.plan.node_names import shown_names
from headrace.plan.observed import Node, Observed, Room
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.roles import CacheFolder, Role, RoleKind

_SPARE = 0.95
"""What was too large is that until it fits with a little to spare: else each file that comes and goes would turn it."""


@dataclass(frozen=True, slots=True)
class Lack:
    """A disk, or memory (`folder` is empty), that is smaller than the quotas there together; and whose it is."""

    folder: str
    wanted_bytes: int
    workers: int
    nodes: tuple[str, ...] = ()


def lacking_room(caches: Iterable[tuple[Node, Iterable[CacheFolder]]], share: float = 1.0) -> list[Lack]:
    """The places that are too small for these caches; `share` is the part of the room that they may take."""
    sums: dict[str, tuple[Room, Lack]] = {}
    for node, folders in caches:
        seen: set[str] = set()
        for room, folder, quota in _needs(node, folders):
            before = sums[room.id][1] if room.id in sums else Lack(folder, 0, 0)
            comes = room.id not in seen
            sums[room.id] = (
                room,
                Lack(
                    before.folder,
                    before.wanted_bytes + quota,
                    before.workers + comes,
                    (*before.nodes, node.name) if comes else before.nodes,
                ),
            )
            seen.add(room.id)
    return [lack for room, lack in sums.values() if lack.wanted_bytes > room.free_bytes * share]


def overcommitted(
    roles: Iterable[Role], observed: Observed, before: Iterable[DatasetCondition]
) -> Wait | None:
    """The message about the quotas of all workers. Without a master it is not known how much they hold by now."""
    said = condition_of(before, DatasetConditionType.CACHE_OVERCOMMITTED)
    if said is not None and observed.data is None:
        return said_before((said,))
    nodes = {node.name: node for node in observed.nodes}
    workers = [role for role in roles if role.kind is RoleKind.WORKER and role.node in nodes]
    caches = [(nodes[role.node], role.cache) for role in workers if role.node]
    lacks = lacking_room(caches, _SPARE if said_before(before) else 1.0)
    return wait(Reason.QUOTA_LARGER_THAN_DISK, "; ".join(_texts(lacks))) if lacks else None


def said_before(before: Iterable[DatasetCondition]) -> Wait | None:
    """The same as it was said last."""
    said = condition_of(before, DatasetConditionType.CACHE_OVERCOMMITTED)
    if said is None or said.status != "True":
        return None
    return Wait(Reason.QUOTA_LARGER_THAN_DISK, said.message or "")


def _needs(node: Node, folders: Iterable[CacheFolder]) -> Iterable[tuple[Room, str, int]]:
    for each in folders:
        if each.medium == "MEM" and node.memory is not None:
            yield node.memory, "", each.quota_bytes
        room = _disk_of(node.disks, each.folder)
        if room is not None:
            yield room, each.folder, each.quota_bytes


def _disk_of(disks: Mapping[str, Room], folder: str) -> Room | None:
    """The disk of the nearest folder that the node knows of; `None` when it knows of none."""
    path = folder
    while path and path not in disks:
        path = path.rpartition("/")[0]
    return disks.get(path or "/")


def _texts(lacks: Iterable[Lack]) -> Iterator[str]:
    """A sentence for each, with its nodes; nodes of which the same is to be said have one together."""
    alike: dict[Lack, list[str]] = {}
    alone: list[Lack] = []
    for lack in lacks:
        if len(lack.nodes) == 1:
            alike.setdefault(replace(lack, nodes=()), []).append(lack.nodes[0])
        else:
            alone.append(lack)
    for lack, nodes in alike.items():
        yield f"on {'each of ' if len(nodes) > 1 else ''}{shown_names(nodes)}: {_text(lack)}"
    for lack in alone:
        yield f"on {shown_names(lack.nodes)}: {_text(lack)}"


def _text(lack: Lack) -> str:
    # No word of how much is free: that changes from pass to pass.
    who = "1 worker" if lack.workers == 1 else f"{lack.workers} workers together"
    what = f"the disk of {lack.folder}" if lack.folder else "memory"
    return f"the quotas of {who} are {format_bytes(lack.wanted_bytes)}, and {what} has less room"

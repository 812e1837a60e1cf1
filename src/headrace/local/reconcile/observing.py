"""The world as one dataset's plan needs it: gathered anew at each look, by asking and never by waiting long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from headrace.api.kinds import Operation
from headrace.api.operations import OperationPhase, OperationStatus
from headrace.control.client import ControlClient
from headrace.errors import HeadraceError
from headrace.local.nodes import VirtualNode
from headrace.local.reconcile.claims import claim_facts
from headrace.local.reconcile.mounted import answers
from headrace.local.reconcile.places import Addresses, DatasetPlaces, places_of
from headrace.local.reconcile.rendering import master_url
from headrace.local.reconcile.scene import Scene
from headrace.local.reconcile.secret_values import secret_facts
from headrace.local.reconcile.seeing import node_facts, rooms_of
from headrace.local.reconcile.standing import Sight, Standings, Trouble, failed_start
from headrace.local.reconcile.troubles import Troubles
from headrace.local.reconcile.using import Users, users_of
from headrace.local.roles import RoleRecord
from headrace.local.uses import Use
from headrace.plan.master_status import data_facts
from headrace.plan.observed import Observed, RoleFacts, UseFacts
from headrace.plan.referring import referred

_ANSWER_S = 3.0
_USERS_S = 10.0
"""How old it may be what is known of users while nothing is about to be taken away from them."""


@dataclass(frozen=True, slots=True)
class Eyes:
    """What the world is seen with."""

    places: DatasetPlaces
    addresses: Addresses
    troubles: Troubles
    standings: Standings
    digest_key: bytes
    users: Users
    uses: tuple[Use, ...] = ()


async def observe(
    scene: Scene,
    eyes: Eyes,
    nodes: Sequence[VirtualNode],
    records: Sequence[RoleRecord],
    now: datetime,
) -> Observed:
    """Everything that is known at this moment, but for other datasets' workers."""
    own = [record for record in records if (record.order.namespace, record.order.dataset) == scene.key]
    own = [record for record in own if record.order.kind != "job"]
    newest_s = 0.0 if scene.is_leaving else _USERS_S
    status, mounted, users = await asyncio.gather(
        _status(eyes, own),
        _answering(_mounts(eyes, nodes, own)),
        users_now(scene, eyes, nodes, records, newest_s),
    )
    seen = _Seen(status, mounted, users, tuple(own), _hosts(scene, records), now)
    return await asyncio.to_thread(_observed, scene, eyes, nodes, seen)


async def users_now(
    scene: Scene,
    eyes: Eyes,
    nodes: Sequence[VirtualNode],
    records: Sequence[RoleRecord],
    newest_s: float = 0.0,
) -> tuple[UseFacts, ...]:
    """Who uses the dataset, seen at most so many seconds ago."""
    own = [record for record in records if (record.order.namespace, record.order.dataset) == scene.key]
    mounts = _mounts(eyes, nodes, own)
    found = await eyes.users.seen(newest_s) if mounts else ()
    return *_known_users(eyes.uses), *users_of(mounts, _own_processes(records, eyes.uses), found)


def _mounts(eyes: Eyes, nodes: Sequence[VirtualNode], own: Sequence[RoleRecord]) -> dict[str, str]:
    """The nodes that have a mount, by its place."""
    mounted = {record.order.node for record in own if record.order.kind == "mount"}
    return {str(eyes.places.mountpoint(node)): node.name for node in nodes if node.name in mounted}


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was asked of others: the master, mounts, the kernel."""

    status: Mapping[str, Any] | None
    mounted: frozenset[str]
    users: tuple[UseFacts, ...]
    own: tuple[RoleRecord, ...]
    hosts: frozenset[str]
    now: datetime


def _observed(scene: Scene, eyes: Eyes, nodes: Sequence[VirtualNode], seen: _Seen) -> Observed:
    runtime = scene.declared.runtime if scene.declared else None
    return Observed(
        nodes=node_facts(nodes, rooms_of(runtime, scene.title, seen.status)),
        secrets=secret_facts(scene, eyes.digest_key),
        claims=claim_facts(scene),
        roles=_roles(eyes, _master(scene, eyes), seen),
        data=data_facts(seen.status) if seen.status is not None else None,
        users=seen.users,
        referrers=scene.referrers,
        operations=_operations(scene),
        hosts=seen.hosts,
    )


def _own_processes(records: Iterable[RoleRecord], uses: Iterable[Use]) -> frozenset[int]:
    """Processes that are known already for what they are."""
    return frozenset({*(record.pid for record in records), *(use.pid for use in uses)})


def _known_users(uses: Iterable[Use]) -> tuple[UseFacts, ...]:
    """Those who said that they use the dataset, with a file open or not."""
    return tuple(UseFacts(use.user, use.node) for use in uses)


def _hosts(scene: Scene, records: Sequence[RoleRecord]) -> frozenset[str]:
    """The nodes of the workers that a dataset is read through which only refers to another."""
    home = scene.declared and referred(scene.declared)
    return frozenset(
        record.order.node
        for record in records
        if record.order.kind == "worker" and f"{record.order.namespace}/{record.order.dataset}" == home
    )


def _master(scene: Scene, eyes: Eyes) -> str | None:
    """The master of the cluster that the dataset is read through: its own, or that of the one it refers to."""
    home = scene.declared and referred(scene.declared)
    places = places_of(eyes.places.places, home) if home else eyes.places
    return master_url(places, eyes.addresses)


def _roles(eyes: Eyes, master: str | None, seen: _Seen) -> tuple[RoleFacts, ...]:
    prefix = eyes.places.order_id("")
    found: list[RoleFacts] = []
    for record in seen.own:
        role_id = record.order.id.removeprefix(prefix)
        troubles = _troubles(eyes, record.order.id, role_id)
        sight = Sight(seen.status, seen.mounted, troubles, master, seen.now)
        found.append(eyes.standings.facts_of(record, role_id, sight))
    started = {facts.id for facts in found}
    for order_id, trouble in eyes.troubles.of_dataset(prefix):
        if (role_id := order_id.removeprefix(prefix)) not in started:
            found.append(failed_start(role_id, trouble))
    return tuple(found)


def _troubles(eyes: Eyes, order_id: str, role_id: str) -> dict[str, Trouble]:
    trouble = eyes.troubles.find(order_id)
    return {role_id: trouble} if trouble else {}


async def _status(eyes: Eyes, own: Sequence[RoleRecord]) -> Mapping[str, Any] | None:
    """The master's status; `None` while no master answers."""
    runs = any(record.order.kind == "master" and record.state == "running" for record in own)
    master = master_url(eyes.places, eyes.addresses)
    if not runs or master is None:
        return None
    try:
        async with asyncio.timeout(_ANSWER_S), ControlClient(master, None) as client:
            return await client.status()
    except (HeadraceError, TimeoutError):
        return None


async def _answering(mounts: Mapping[str, str]) -> frozenset[str]:
    """The nodes whose mounts are there and answer."""
    found = await asyncio.gather(*(answers(mountpoint) for mountpoint in mounts))
    return frozenset(node for node, answer in zip(mounts.values(), found, strict=True) if answer)


def _operations(scene: Scene) -> dict[str, tuple[str, ...]]:
    """The operations on the dataset that run now."""
    found: dict[str, tuple[str, ...]] = {}
    for record in scene.operations:
        status = cast("Operation", record.thing()).status or OperationStatus()
        if status.phase is OperationPhase.EXECUTING:
            kind = record.reference.kind
            found[kind] = (*found.get(kind, ()), record.reference.name)
    return found

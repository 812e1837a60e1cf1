"""The world as one dataset's plan needs it: gathered anew at each pass, by asking and never by waiting long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from headrace.api.kinds import Operation
from headrace.control.client import ControlClient
from headrace.control.cluster_token import read_token
from headrace.errors import HeadraceError
from headrace.local.datasets.claim_facts import claim_facts
from headrace.local.datasets.dataset_layout import Addresses, DatasetLayout, layout_of
from headrace.local.datasets.desired_state import DesiredState
from headrace.local.datasets.mount_probe import answers
from headrace.local.datasets.rendering import master_url
from headrace.local.datasets.secret_files import secret_facts
from headrace.local.nodes.node_capacity import node_facts, rooms_of
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.processes.consumers import Consumer
from headrace.local.processes.role_processes import RoleRecord
from headrace.local.reconcile.back_off import StartBackOff
from headrace.local.reconcile.open_file_scan import OpenFileScan, users_of
from headrace.local.reconcile.role_states import ProbeResults, RoleFailure, RoleStates, failed_start
from headrace.plan.master_status import data_facts
from headrace.plan.observed import ConsumerFacts, Observed, RoleFacts
from headrace.plan.operation_inputs import running_operations
from headrace.plan.referring import referred

_ANSWER_S = 3.0
_USERS_S = 10.0
"""How old it may be what is known of users while nothing is about to be taken away from them."""


@dataclass(frozen=True, slots=True)
class Observer:
    """The observer of the world."""

    layout: DatasetLayout
    addresses: Addresses
    back_off: StartBackOff
    role_states: RoleStates
    digest_key: bytes
    open_files: OpenFileScan
    consumers: tuple[Consumer, ...] = ()


async def observe(
    desired: DesiredState,
    observer: Observer,
    nodes: Sequence[VirtualNode],
    records: Sequence[RoleRecord],
    now: datetime,
) -> Observed:
    """Everything that is known at this moment, but for other datasets' workers."""
    own = [record for record in records if (record.order.namespace, record.order.dataset) == desired.key]
    own = [record for record in own if record.order.kind != "job"]
    newest_s = 0.0 if desired.is_leaving else _USERS_S
    status, mounted, users = await asyncio.gather(
        _status(observer, own),
        _answering(_mounts(observer, nodes, own)),
        users_now(desired, observer, nodes, records, newest_s),
    )
    probed = _Probed(status, mounted, users, tuple(own), _hosts(desired, records), now)
    return await asyncio.to_thread(_observed, desired, observer, nodes, probed)


async def users_now(
    desired: DesiredState,
    observer: Observer,
    nodes: Sequence[VirtualNode],
    records: Sequence[RoleRecord],
    newest_s: float = 0.0,
) -> tuple[ConsumerFacts, ...]:
    """The users of the dataset, seen at most so many seconds ago."""
    own = [record for record in records if (record.order.namespace, record.order.dataset) == desired.key]
    mounts = _mounts(observer, nodes, own)
    found = await observer.open_files.latest(newest_s) if mounts else ()
    return *_known_users(observer.consumers), *users_of(
        mounts, _own_processes(records, observer.consumers), found
    )


def _mounts(observer: Observer, nodes: Sequence[VirtualNode], own: Sequence[RoleRecord]) -> dict[str, str]:
    """The nodes that have a mount, by its place."""
    mounted = {record.order.node for record in own if record.order.kind == "mount"}
    return {str(observer.layout.mountpoint(node)): node.name for node in nodes if node.name in mounted}


@dataclass(frozen=True, slots=True)
class _Probed:
    """What was asked of others: the master, mounts, the kernel."""

    status: Mapping[str, Any] | None
    mounted: frozenset[str]
    users: tuple[ConsumerFacts, ...]
    own: tuple[RoleRecord, ...]
    hosts: frozenset[str]
    now: datetime


def _observed(
    desired: DesiredState, observer: Observer, nodes: Sequence[VirtualNode], probed: _Probed
) -> Observed:
    runtime = desired.declared.runtime if desired.declared else None
    return Observed(
        nodes=node_facts(nodes, rooms_of(runtime, desired.title, probed.status)),
        secrets=secret_facts(desired, observer.digest_key),
        claims=claim_facts(desired),
        roles=_roles(observer, _master(desired, observer), probed),
        data=data_facts(probed.status) if probed.status is not None else None,
        users=probed.users,
        referrers=desired.referrers,
        operations=running_operations(cast("Operation", each.thing()) for each in desired.operations),
        hosts=probed.hosts,
    )


def _own_processes(records: Iterable[RoleRecord], consumers: Iterable[Consumer]) -> frozenset[int]:
    """Processes that are known already for what they are."""
    return frozenset({*(record.pid for record in records), *(consumer.pid for consumer in consumers)})


def _known_users(consumers: Iterable[Consumer]) -> tuple[ConsumerFacts, ...]:
    """Those who said that they use the dataset, with a file open or not."""
    return tuple(ConsumerFacts(consumer.user, consumer.node) for consumer in consumers)


def _hosts(desired: DesiredState, records: Sequence[RoleRecord]) -> frozenset[str]:
    """The nodes of the workers that a dataset is read through which only refers to another."""
    home = desired.declared and referred(desired.declared)
    return frozenset(
        record.order.node
        for record in records
        if record.order.kind == "worker" and f"{record.order.namespace}/{record.order.dataset}" == home
    )


def _master(desired: DesiredState, observer: Observer) -> str | None:
    """The master of the cluster that the dataset is read through: its own, or that of the one it refers to."""
    home = desired.declared and referred(desired.declared)
    layout = layout_of(observer.layout.layout, home) if home else observer.layout
    return master_url(layout, observer.addresses)


def _roles(observer: Observer, master: str | None, probed: _Probed) -> tuple[RoleFacts, ...]:
    prefix = observer.layout.order_id("")
    found: list[RoleFacts] = []
    for record in probed.own:
        role_id = record.order.id.removeprefix(prefix)
        failures = _failures(observer, record.order.id, role_id)
        probes = ProbeResults(probed.status, probed.mounted, failures, master, probed.now)
        found.append(observer.role_states.facts_of(record, role_id, probes))
    started = {facts.id for facts in found}
    for order_id, failure in observer.back_off.of_dataset(prefix):
        if (role_id := order_id.removeprefix(prefix)) not in started:
            found.append(failed_start(role_id, failure))
    return tuple(found)


def _failures(observer: Observer, order_id: str, role_id: str) -> dict[str, RoleFailure]:
    failure = observer.back_off.find(order_id)
    return {role_id: failure} if failure else {}


async def _status(observer: Observer, own: Sequence[RoleRecord]) -> Mapping[str, Any] | None:
    """The master's status; `None` while no master answers."""
    runs = any(record.order.kind == "master" and record.state == "running" for record in own)
    master = master_url(observer.layout, observer.addresses)
    if not runs or master is None:
        return None
    try:
        token = await asyncio.to_thread(read_token, observer.layout.token)
        async with asyncio.timeout(_ANSWER_S), ControlClient(master, token) as client:
            return await client.status()
    except (HeadraceError, TimeoutError):
        return None


async def _answering(mounts: Mapping[str, str]) -> frozenset[str]:
    """The nodes whose mounts are there and answer."""
    found = await asyncio.gather(*(answers(mountpoint) for mountpoint in mounts))
    return frozenset(node for node, answer in zip(mounts.values(), found, strict=True) if answer)

"""The world as one dataset's plan needs it: out of the mirror, and from its master."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import SecretStr

from headrace.api.dataset import DatasetPhase
from headrace.api.mounts import scheme_of
from headrace.api.quantities import amount_of
from headrace.api.scheduling import NodeSelector
from headrace.control.client import ControlClient
from headrace.errors import ConfigError, DeadlineError, HeadraceError, OriginUnreachableError
from headrace.kube.client import KubeClient
from headrace.operator.desired_state import DesiredState, noted_in
from headrace.operator.mirror import Content, Mirror, is_driver, kept_of_pod
from headrace.operator.node_capacity import rooms_of
from headrace.operator.reference_index import users_of
from headrace.operator.rendering.naming import MASTER_PORT, NODES_ANNOTATION, Names, names_of
from headrace.operator.rendering.render_context import RenderContext, wishes_of
from headrace.operator.rendering.role_volumes import CLAIMS
from headrace.operator.role_states import ProbeResults, RoleStates, fault_of, is_ready, role_facts
from headrace.operator.settings import OperatorSettings
from headrace.operator.token_digests import notes_of, token_note
from headrace.operator.volume_controller import volume_facts
from headrace.plan.cache_folders import cache_folders
from headrace.plan.claims import address_of
from headrace.plan.master_status import data_facts
from headrace.plan.observed import (
    ClaimFacts,
    ClaimState,
    ConsumerFacts,
    Node,
    Observed,
    SecretFacts,
    Taint,
)
from headrace.plan.operation_inputs import running_operations
from headrace.plan.policy import Policy
from headrace.plan.reasons import Wait
from headrace.plan.referring import referred
from headrace.plan.roles import RoleKind
from headrace.plan.runtimes import wanted_of
from headrace.plan.selectors import fits_selector

TokenSource = Callable[[DesiredState], Awaitable[SecretStr | None]]

MOST_ANSWER_BYTES = 1 << 20
"""Of a master of a tenant: some four thousand workers."""
_ANSWER_S = 3.0
_SERVED = {DatasetPhase.BOUND, DatasetPhase.TERMINATING}
_CLAIM_KIND = "PersistentVolumeClaim"
_ENDED = {"Succeeded", "Failed"}
# What Kubernetes puts on a node that is not ready: that it is away says `is_ready`, and how long its pods wait for it
# say their own tolerations.
_TAINTS_OF_ABSENCE = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


@dataclass(frozen=True, slots=True)
class Observation:
    """The observation of a dataset, and the context that its pods are made with."""

    observed: Observed
    render_context: RenderContext
    status: Mapping[str, Any] | None


class Told(NamedTuple):
    """The master's report; `None` where none answers. `fault` is what is wrong with the answer that came instead."""

    status: Mapping[str, Any] | None
    fault: str = ""


async def observe(
    desired: DesiredState,
    settings: OperatorSettings,
    role_states: RoleStates,
    now: datetime,
    token_of: TokenSource | None = None,
) -> Observation:
    """Everything that is known at this moment, but for other datasets' workers."""
    render_context = render_context_of(desired, settings)
    has_master = bool(render_context.master and desired.pods(RoleKind.MASTER))
    token = await token_of(desired) if has_master and token_of else None
    told = await _told(render_context.master, token) if has_master else Told(None)
    status = told.status
    nodes = _nodes(desired, status, settings.policy)
    observed = Observed(
        nodes=nodes,
        secrets=Secrets(desired),
        claims=Claims(desired),
        roles=role_facts(desired.pods(), _probes(desired, render_context, status, nodes, now), role_states),
        data=data_facts(status) if status is not None else None,
        users=_users(desired, users_of(desired.mirror, desired.key)),
        referrers=desired.referrers,
        operations=running_operations(desired.operations),
        hosts=_hosts(desired),
        volume=volume_facts(desired.mirror, desired.key),
        keepers=_keepers(desired.mirror, settings.namespace),
        has_pods=True,
        master_fault=told.fault,
        open_folders=settings.local_folders,
        policy=settings.policy,
        sweeping=_sweeping(desired, settings.namespace, now),
    )
    return Observation(observed, render_context, status)


def render_context_of(desired: DesiredState, settings: OperatorSettings) -> RenderContext:
    """The context that the pods of a dataset are made with, beside their roles."""
    declared = desired.declared
    home = declared and referred(declared)
    tolerations = desired.dataset.spec.tolerations if desired.dataset else ()
    return RenderContext(
        settings=settings,
        master=master_url(desired.mirror, names_of(home) if home else desired.names),
        wishes=wishes_of(desired.runtime, settings.policy, tolerations),
        owner=_owner(desired),
        restore_node=_restore_node(desired),
        can_restore=_can_restore(desired),
    )


def _restore_node(desired: DesiredState) -> str:
    place = desired.dataset.spec.data_restore_location if desired.dataset else None
    is_folder = place is not None and place.path is not None and scheme_of(place.path) == "local"
    return (place.node_name or "") if place and is_folder else ""


def _can_restore(desired: DesiredState) -> bool:
    """A dataset that programs use already does not wait for the node that its first master had a list from."""
    node = _restore_node(desired)
    status = desired.dataset.status if desired.dataset else None
    if not node or status is None or status.phase not in _SERVED:
        return True
    return any(each.name == node and each.is_ready for each in node_facts(desired.mirror))


def master_url(mirror: Mirror, names: Names) -> str:
    """The address of a dataset's master: that of its Service, so that nothing waits for names."""
    service = mirror.get("Service", names.namespace, names.master)
    address = ((service or {}).get("spec") or {}).get("clusterIP") or ""
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{MASTER_PORT}" if address else ""


def planned_nodes(desired: DesiredState, kind: str, name: str) -> list[str]:
    """The nodes that the pods of a workload were sent to."""
    content = desired.mirror.get(kind, desired.key[0], name)
    noted = noted_in(content, NODES_ANNOTATION)
    return [str(each) for each in noted] if isinstance(noted, list) else []


def node_facts(mirror: Mirror) -> tuple[Node, ...]:
    """The nodes of the cluster."""
    return tuple(_node(content) for content in mirror.all("Node"))


def _nodes(desired: DesiredState, status: Mapping[str, Any] | None, policy: Policy) -> tuple[Node, ...]:
    """The nodes, with what the dataset's own workers say of their disks."""
    folders = cache_folders(wanted_of(desired.runtime), desired.title, policy) if desired.runtime else ()
    rooms = rooms_of(status, () if isinstance(folders, Wait) else folders)
    return tuple(replace(node, disks=rooms.get(node.name, {})) for node in node_facts(desired.mirror))


def _node(content: Content) -> Node:
    conditions = (content.get("status") or {}).get("conditions") or ()
    spec = content.get("spec") or {}
    return Node(
        name=content["metadata"]["name"],
        labels=content["metadata"].get("labels") or {},
        taints=tuple(
            Taint(each["key"], each.get("value") or "", each["effect"])
            for each in spec.get("taints") or ()
            if each["key"] not in _TAINTS_OF_ABSENCE
        ),
        memory_bytes=_memory_bytes(content),
        is_ready=any(each["type"] == "Ready" and each["status"] == "True" for each in conditions),
    )


def _memory_bytes(node: Content) -> int | None:
    said = ((node.get("status") or {}).get("capacity") or {}).get("memory")
    amount = amount_of(said) if said is not None else None
    return None if amount is None else int(amount)


def _owner(desired: DesiredState) -> Mapping[str, Any] | None:
    """Who is gone when everything of the dataset may go: its runtime, or the dataset where it has none."""
    thing = desired.runtime or desired.dataset
    if thing is None or not thing.metadata.uid:
        return None
    return {
        "apiVersion": thing.api_version,
        "kind": thing.kind,
        "name": thing.metadata.name,
        "uid": thing.metadata.uid,
        "controller": True,
    }


def _probes(
    desired: DesiredState,
    render_context: RenderContext,
    status: Mapping[str, Any] | None,
    nodes: Iterable[Node],
    now: datetime,
) -> ProbeResults:
    return ProbeResults(
        status=status,
        rendered={kind.value: render_context.version(kind) for kind in RoleKind},
        nodes=planned_nodes(desired, "StatefulSet", desired.names.worker),
        now=now,
        present=frozenset(node.name for node in nodes if node.is_ready),
        token=token_note(desired),
    )


class Secrets(Mapping[str, SecretFacts]):
    """The Secrets of a dataset's namespace, each looked up when it is asked for. Pods note what follows from these
    digests, so they are keyed.
    """

    def __init__(self, desired: DesiredState) -> None:
        self._mirror, self._namespace = desired.mirror, desired.key[0]
        self._notes = notes_of(desired)

    def __getitem__(self, name: str) -> SecretFacts:
        content = self._mirror.get("Secret", self._namespace, name)
        if content is None:
            raise KeyError(name)
        return SecretFacts({key: self._notes.keyed(digest) for key, digest in content["digests"].items()})

    def __iter__(self) -> Iterator[str]:
        return iter([content["metadata"]["name"] for content in self._mirror.all("Secret", self._namespace)])

    def __len__(self) -> int:
        return len(list(iter(self)))


class Claims(Mapping[str, ClaimFacts]):
    """The claims of a dataset's namespace, each understood when it is asked for: there may be many of others."""

    def __init__(self, desired: DesiredState) -> None:
        self._desired = desired

    def __getitem__(self, name: str) -> ClaimFacts:
        if self._desired.mirror.get(_CLAIM_KIND, self._desired.key[0], name) is None:
            raise KeyError(name)
        try:
            return _claim(name, self._desired)
        except ConfigError as error:
            return ClaimFacts(ClaimState.PENDING, message=f"it cannot be understood: {error}")

    def __iter__(self) -> Iterator[str]:
        found = self._desired.mirror.all(_CLAIM_KIND, self._desired.key[0])
        return iter([content["metadata"]["name"] for content in found])

    def __len__(self) -> int:
        return len(list(iter(self)))


def _claim(name: str, desired: DesiredState) -> ClaimFacts:
    """NFS is read by the engine itself; any other volume is mounted by kubelet into master and workers."""
    claim = desired.claim(name)
    if claim is None or not claim.spec.volume_name or claim.status is None or claim.status.phase != "Bound":
        return ClaimFacts(ClaimState.PENDING, message="no PersistentVolume fits it yet")
    volume = desired.volume(claim.spec.volume_name)
    if volume is None:
        return ClaimFacts(
            ClaimState.PENDING, message=f"PersistentVolume {claim.spec.volume_name} does not exist"
        )
    if volume.spec.nfs is not None:
        return ClaimFacts(ClaimState.PRESENT, address_of(volume))
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    return ClaimFacts(ClaimState.PRESENT, f"local://{CLAIMS}/{name}", _nodes_of(required, desired.mirror))


def _nodes_of(required: Mapping[str, Any] | None, mirror: Mirror) -> tuple[str, ...]:
    """The nodes that have a volume; none named for one that is everywhere."""
    if not required:
        return ()
    selector = NodeSelector.model_validate(required)
    return tuple(node.name for node in node_facts(mirror) if fits_selector(node, selector))


async def users_now(desired: DesiredState, client: KubeClient) -> tuple[ConsumerFacts, ...]:
    """The same pods, as the API server has them at this moment."""
    namespace, name = desired.key
    pods = await client.list("Pod", namespace)
    return _users(desired, [pod for pod in map(kept_of_pod, pods) if pod and name in pod["spec"]["claims"]])


def _users(desired: DesiredState, pods: Iterable[Content]) -> tuple[ConsumerFacts, ...]:
    """Pods that use the claim and have a node. One that has ended holds nothing."""
    return tuple(
        ConsumerFacts(f"pod {desired.key[0]}/{pod['metadata']['name']}", pod["spec"]["nodeName"])
        for pod in pods
        if pod["spec"]["nodeName"] and pod["status"].get("phase") not in _ENDED
    )


def _sweeping(desired: DesiredState, namespace: str, now: datetime) -> dict[str, str]:
    """The nodes that are being swept, each with what keeps its pod from that."""
    pods = sorted(desired.sweepers(namespace).items())
    return {node: fault_of(pod, now) for node, pod in pods if pod["status"].get("phase") != "Succeeded"}


def _hosts(desired: DesiredState) -> frozenset[str]:
    """The nodes of the workers that a dataset is read through which only refers to another."""
    home = desired.declared and referred(desired.declared)
    if not home:
        return frozenset()
    names = names_of(home)
    workers = DesiredState(desired.mirror, (names.namespace, names.dataset)).pods(RoleKind.WORKER)
    return frozenset(pod["spec"]["nodeName"] for pod in workers if pod["spec"]["nodeName"])


def _keepers(mirror: Mirror, namespace: str) -> frozenset[str]:
    """The nodes whose driver is up, so that it holds the mounts there while their pods are replaced."""
    return frozenset(
        pod["spec"]["nodeName"]
        for pod in mirror.all("Pod", namespace)
        if is_driver(pod["metadata"].get("labels") or {})
        and not pod["metadata"].get("deletionTimestamp")
        and is_ready(pod)
    )


async def _told(master: str, token: SecretStr | None) -> Told:
    """What the master reports, if one answers that has the token, shortly and with sense."""
    if token is None:
        return Told(None)
    try:
        async with (
            asyncio.timeout(_ANSWER_S),
            ControlClient(master, token, most_bytes=MOST_ANSWER_BYTES) as client,
        ):
            return Told((await client.report()).model_dump())
    except (OriginUnreachableError, DeadlineError, TimeoutError):
        return Told(None)
    except HeadraceError as error:
        return Told(None, error.message)

"""Nodes that jobs may run on, and claims that they may name, as they are shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from headrace.jobs.views import ClaimView, NodeRoom
from headrace.kubeflow.names import Content, annotations_of, labels_of, time_of
from headrace.kubeflow.pod_states import GPU, gpus_of, has_ended

_ROLE_PREFIX, _ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"


def room_of(node: Content) -> NodeRoom:
    """The room that a node offers. One that is cordoned takes no new pods."""
    status, spec = node.get("status") or {}, node.get("spec") or {}
    conditions = status.get("conditions") or ()
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    addresses = {each.get("type"): each.get("address") for each in status.get("addresses") or ()}
    return NodeRoom(
        name=node["metadata"]["name"],
        gpus=_count(status.get("capacity")),
        allocatable_gpus=_count(status.get("allocatable")),
        slots=0,
        ready=is_ready and not spec.get("unschedulable"),
        labels=dict(labels_of(node)),
        address=str(addresses.get("InternalIP") or ""),
        role=_role(labels_of(node)),
    )


def with_allocated(rooms: Iterable[NodeRoom], pods: Iterable[Content]) -> list[NodeRoom]:
    """The same with the GPUs of the pods that are there."""
    taken: dict[str, int] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and not has_ended(pod):
            taken[node] = taken.get(node, 0) + gpus_of(pod.get("spec") or {})
    return [replace(each, allocated_gpus=taken.get(each.name, 0)) for each in rooms]


def claim_of(claim: Content, dataset: Mapping[str, Any] | None) -> ClaimView:
    """A claim; of a dataset's also how much of it is cached."""
    metadata, notes = claim["metadata"], annotations_of(claim)
    states = ((dataset or {}).get("status") or {}).get("cacheStates") or {}
    return ClaimView(
        name=metadata["name"],
        namespace=metadata.get("namespace") or "default",
        access_modes=tuple((claim.get("spec") or {}).get("accessModes") or ()),
        phase=str((claim.get("status") or {}).get("phase") or "Pending"),
        created=time_of(metadata.get("creationTimestamp")) or datetime.min,
        description=notes.get("description", ""),
        owner=notes.get("owner", ""),
        is_dataset=dataset is not None,
        cached=str(states.get("cachedPercentage") or ""),
        is_being_deleted=bool(metadata.get("deletionTimestamp")),
    )


def _role(labels: Mapping[str, str]) -> str:
    """As kubectl and Arena have it; empty for a node that has none."""
    named = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted({*named, labels.get(_ROLE, "")} - {""}))


def _count(amounts: Mapping[str, Any] | None) -> int:
    text = str((amounts or {}).get(GPU) or "0")
    return int(text) if text.isdecimal() else 0

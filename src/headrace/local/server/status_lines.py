"""The backend's report on its nodes, its processes and its troubles, from what is written down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace.api.times import parse_time
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.processes.role_processes import RoleRecord
from headrace.local.protocol import messages
from headrace.local.store.records import Record
from headrace.plan.observed import RoleFacts

_BAD = {"Ready": "False", "Failed": "True", "Waiting": "True"}
_BAD |= dict.fromkeys(("Degraded", "Terminating", "CacheOvercommitted"), "True")


def node_line(node: VirtualNode) -> messages.NodeLine:
    """A node."""
    taints = (messages.TaintLine(key=each.key, value=each.value, effect=each.effect) for each in node.taints)
    return messages.NodeLine(
        name=node.name,
        address=node.address,
        labels=dict(node.labels),
        annotations=dict(node.annotations),
        taints=tuple(taints),
        created=node.created,
        namespace=node.namespace,
        link_bits_per_s=node.link_bits_per_s,
        state="Ready" if node.is_made else "NotReady",
    )


def role_line(record: RoleRecord, seen: RoleFacts | None = None) -> messages.RoleLine:
    """A process, and how it was when its dataset was reconciled last."""
    order = record.order
    return messages.RoleLine(
        id=order.id,
        namespace=order.namespace,
        dataset=order.dataset,
        role=order.kind,
        node=order.node,
        state=record.state,
        health=_health(record, seen),
        message=seen.message if seen else "",
        pid=record.pid or None,
        since=record.since,
        restarts=max(record.starts - 1, 0),
    )


def unstarted_line(order_id: str, seen: RoleFacts) -> messages.RoleLine:
    """A role that could not be started."""
    title = order_id.removesuffix(f".{seen.id}")
    namespace, _, dataset = title.partition(".")
    return messages.RoleLine(
        id=order_id,
        namespace=namespace,
        dataset=dataset,
        role=seen.role,
        node=seen.node or "",
        state="failed",
        health=seen.state.value,
        message=seen.message,
    )


def trouble_lines(records: Iterable[Record]) -> Iterator[messages.TroubleLine]:
    """The faults of declared objects."""
    for record in records:
        if record.damage:
            yield _trouble(record, {"type": "Damaged", "message": record.damage})
            continue
        if record.reference.kind == "Dataset" and not record.status:
            yield _trouble(record, {"type": "Ready", "message": "nobody has looked at it yet"})
        for condition in (record.status or {}).get("conditions") or ():
            if condition.get("type") in _BAD and _BAD[condition["type"]] == condition.get("status"):
                yield _trouble(record, condition)


def _trouble(record: Record, condition: Mapping[str, Any]) -> messages.TroubleLine:
    reference = record.reference
    return messages.TroubleLine(
        object=messages.Named(kind=reference.kind, namespace=reference.namespace, name=reference.name),
        condition=condition["type"],
        reason=condition.get("reason", ""),
        message=condition.get("message", ""),
        since=condition.get("lastTransitionTime", ""),
    )


def _health(record: RoleRecord, seen: RoleFacts | None) -> str:
    if record.state == "running":
        # What was seen of the process before says nothing of this one.
        return seen.state.value if seen and seen.since >= parse_time(record.since) else ""
    return "failed" if record.state == "ended" and record.exit_code != 0 else record.state

"""The facts of the API server about a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node: `trouble` is what its conditions complain of."""

    name: str
    kernel: str
    kubelet: str
    is_ready: bool
    host_label: str
    trouble: tuple[str, ...] = ()


def node_of(found: Mapping[str, Any]) -> NodeFacts:
    """The facts of a Node as the server tells it."""
    status = found.get("status") or {}
    information = status.get("nodeInfo") or {}
    conditions = {each.get("type"): each.get("status") for each in status.get("conditions") or ()}
    trouble = (f"{name}" for name, said in conditions.items() if name != "Ready" and said == "True")
    return NodeFacts(
        name=str(found["metadata"]["name"]),
        kernel=str(information.get("kernelVersion", "")),
        kubelet=str(information.get("kubeletVersion", "")),
        is_ready=conditions.get("Ready") == "True",
        host_label=str((found["metadata"].get("labels") or {}).get(_HOST, "")),
        trouble=tuple(sorted(trouble)),
    )

"""Clusters on one machine, for tests and benchmarks: nodes with links of their own, and the real roles on them."""

from __future__ import annotations

from pathlib import Path

from headrace.netns.namespaces import can_make_namespaces
from headrace.testing.cluster.bed import Bed, Capability
from headrace.testing.cluster.cluster_bed import ClusterBed, CommandError, Rules
from headrace.testing.cluster.loopback_bed import LoopbackBed
from headrace.testing.cluster.namespace_bed import NamespaceBed
from headrace.testing.cluster.node import LinkBytes, Node, UnsupportedError

__all__ = [
    "Bed",
    "Capability",
    "ClusterBed",
    "CommandError",
    "LinkBytes",
    "Node",
    "Rules",
    "UnsupportedError",
    "open_bed",
]


def open_bed(nodes: int, *, base: Path | None = None) -> Bed:
    """The truest bed that the rights allow, with its folder below `base`."""
    return NamespaceBed(nodes, base=base) if can_make_namespaces() else LoopbackBed(nodes, base=base)

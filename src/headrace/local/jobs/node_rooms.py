"""The nodes as jobs see them: their labels, the accelerators of the machine, and what jobs have of them. Pure but for
a look at the machine's devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.jobs.views import NodeRoom
from headrace.local.jobs.job_records import InstanceState, JobRecord
from headrace.local.nodes.node_capacity import is_ready
from headrace.local.nodes.virtual_nodes import VirtualNode

_DEVICES = Path("/dev")


def rooms_of(nodes: Iterable[VirtualNode], jobs: Iterable[JobRecord]) -> list[NodeRoom]:
    """All nodes. They share the accelerators of this machine, and ranks have no limit."""
    gpus = sum(each.name.removeprefix("nvidia").isdecimal() for each in _DEVICES.glob("nvidia*"))
    used: dict[str, int] = {}
    for job in jobs:
        for each in job.instances:
            if each.state is InstanceState.RUNNING:
                used[each.node] = used.get(each.node, 0) + each.gpus
    return [
        NodeRoom(
            name=node.name,
            gpus=gpus,
            allocatable_gpus=gpus,
            slots=0,
            ready=is_ready(node),
            labels=dict(node.labels),
            address=node.address,
            role="worker",
            allocated_gpus=used.get(node.name, 0),
        )
        for node in nodes
    ]

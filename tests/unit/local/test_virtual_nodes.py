"""Nodes as they are written down: labels and taints of a wish, and what is changed later."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import MissingFileError
from headrace.local.nodes.node_capacity import node_facts
from headrace.local.nodes.virtual_nodes import VirtualNodes
from headrace.local.protocol.messages import NodeChange, NodesWish, TaintLine
from headrace.local.store.database import Database
from headrace.plan.observed import Taint

GPU = TaintLine(key="gpu", value="v100", effect="NoSchedule")


@pytest.fixture
def nodes(database: Database, tmp_path: Path) -> VirtualNodes:
    nodes = VirtualNodes(database, tmp_path / "nodes")
    nodes.make(NodesWish(count=2, plain=True, taints_of={"node-2": (GPU,)}))
    return nodes


def taints(nodes: VirtualNodes) -> list[tuple[Taint, ...]]:
    """As the planner sees them."""
    return [node.taints for node in node_facts(nodes.all(), {})]


def change(nodes: VirtualNodes, **what: object) -> None:
    nodes.change(NodeChange(name="node-1", **what))  # type: ignore[arg-type]


def test_the_planner_sees_taints_of_one_node_and_of_all_new_ones(nodes: VirtualNodes) -> None:
    assert taints(nodes) == [(), (Taint("gpu", "v100", "NoSchedule"),)]
    nodes.make(NodesWish(count=3, plain=True, taints=(TaintLine(key="new", effect="NoExecute"),)))
    assert taints(nodes)[2] == (Taint("new", "", "NoExecute"),)
    assert taints(nodes)[:2] == [(), (Taint("gpu", "v100", "NoSchedule"),)]


def test_taints_are_added_replaced_and_taken_away(nodes: VirtualNodes) -> None:
    other = TaintLine(key="gpu", value="a100", effect="NoSchedule")
    evicting = TaintLine(key="gpu", effect="NoExecute")
    change(nodes, taints=(GPU,))
    change(nodes, taints=(other, evicting))
    assert taints(nodes)[0] == (Taint("gpu", "a100", "NoSchedule"), Taint("gpu", "", "NoExecute"))
    change(nodes, untaints=(TaintLine(key="gpu", effect="NoSchedule"),))
    assert taints(nodes)[0] == (Taint("gpu", "", "NoExecute"),)
    change(nodes, taints=(GPU,))
    change(nodes, untaints=(TaintLine(key="gpu", effect=""),))
    assert taints(nodes)[0] == ()


def test_labels_are_changed_and_taken_away_and_stay_so(
    nodes: VirtualNodes, database: Database, tmp_path: Path
) -> None:
    change(nodes, labels={"disk": "ssd", "zone": "a"}, annotations={"note": "x"})
    change(nodes, labels={"zone": None})
    again = VirtualNodes(database, tmp_path / "nodes").all()[0]
    assert again.labels == {"kubernetes.io/hostname": "node-1", "disk": "ssd"}
    assert (again.annotations, again.is_made) == ({"note": "x"}, True)


def test_a_node_that_is_not_there_is_an_error(nodes: VirtualNodes) -> None:
    with pytest.raises(MissingFileError, match='nodes "node-9" not found'):
        nodes.change(NodeChange(name="node-9"))

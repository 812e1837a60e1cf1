"""Nodes that a taint keeps for somebody: a tenant's dataset comes onto them only by the administrator's policy."""

from __future__ import annotations

import json
from typing import Any

import pytest
from planned import World, changed, gpu_nodes

from headrace.errors import ConfigError
from headrace.operator.rendering.render_context import wishes_of
from headrace.plan.observed import Node, Taint
from headrace.plan.policy import Policy, policy_of
from headrace.plan.roles import RoleKind

PLANES = "node-role.kubernetes.io/control-plane"
GPU = "nvidia.com/gpu"
ALL = {"operator": "Exists"}


def tolerates(*keys: str) -> list[dict[str, Any]]:
    return [{"key": key, "operator": "Exists"} for key in keys]


def world_of(taint: str, policy: Policy | None, **given: Any) -> World:
    """A dataset whose four nodes bear a taint; `given` says who tolerates what."""
    nodes = tuple(Node(each.name, each.labels, (Taint(taint),)) for each in gpu_nodes(4))
    world = World.of(nodes=nodes)
    assert world.dataset is not None
    assert world.runtime is not None
    world.dataset = changed(world.dataset, tolerations=given.get("dataset", []))
    parts = {part: {"tolerations": given[part]} for part in ("master", "worker", "fuse") if part in given}
    world.runtime = changed(world.runtime, **parts)
    world.see(policy=policy)
    return world


def workers(world: World) -> int:
    return sum(role.id.startswith("worker") and role.node is not None for role in world.plan().roles)


@pytest.mark.parametrize("part", ["dataset", "worker"])
@pytest.mark.parametrize("asked", [[ALL], tolerates(PLANES), [{"key": "", "operator": "Exists"}]])
def test_no_worker_goes_where_a_taint_keeps_a_node_for_others(part: str, asked: list[dict[str, Any]]) -> None:
    assert workers(world_of(PLANES, None, **{part: asked})) == 4, "on one's own machine one may"
    assert workers(world_of(PLANES, Policy(), **{part: asked})) == 0


@pytest.mark.parametrize("part", ["dataset", "worker"])
def test_workers_go_where_the_policy_lets_them(part: str) -> None:
    assert workers(world_of(GPU, Policy(), **{part: tolerates(GPU)})) == 4
    assert workers(world_of("team", Policy(tolerations=("team",)), **{part: tolerates("team")})) == 4
    assert workers(world_of("team", Policy(tolerations=("*",)), **{part: [ALL]})) == 4


@pytest.mark.parametrize("kind", [RoleKind.MASTER, RoleKind.WORKER])
def test_pods_bear_the_tolerations_that_are_allowed(kind: RoleKind) -> None:
    asked = [ALL, *tolerates(PLANES, GPU)]
    world = world_of(GPU, Policy(), dataset=asked, master=asked, worker=asked)
    assert world.dataset is not None
    found = wishes_of(world.runtime, Policy(), world.dataset.spec.tolerations)[kind].tolerations
    assert [each.get("key") for each in found] == [GPU, GPU]
    bare = wishes_of(None, Policy(), world.dataset.spec.tolerations)[kind].tolerations
    assert [each.get("key") for each in bare] == [GPU]


def test_what_is_refused_is_named() -> None:
    world = world_of(GPU, Policy(), dataset=tolerates(GPU, PLANES), worker=[ALL, *tolerates(GPU)], fuse=[ALL])
    status = world.reconcile().runtime_status
    assert status is not None
    (refused,) = [each for each in status.conditions if each.type == "FieldsRefused"]
    assert f"spec.tolerations[1] of the dataset (taint {PLANES}: have the administrator" in refused.message
    assert "spec.worker.tolerations[0] (all taints" in refused.message
    assert "tolerations[0] of the dataset" not in refused.message
    assert "worker.tolerations[1]" not in refused.message
    assert "fuse" not in refused.message


def test_keys_that_are_none_are_named() -> None:
    for key in ("", "a b", "/gpu", "a/b/c", "**"):
        with pytest.raises(ConfigError, match=r"policy\.tolerations"):
            policy_of(json.dumps({"tolerations": [key]}))

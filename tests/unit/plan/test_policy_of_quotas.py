"""What datasets may take of a node together: cache quotas below the administrator's limit, and nobody's node alone."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from planned import SEED, World, changed, gpu_nodes

from headrace.errors import ConfigError
from headrace.plan.observed import OtherWorker, RoleState
from headrace.plan.policy import Policy, policy_of

GI = 1 << 30
LEVEL = {"mediumtype": "SSD", "path": "/var/lib/docker/jindo"}


def policy(**fields: Any) -> Policy:
    return policy_of(json.dumps(fields))


def world_of(
    quota: str, allowed: Policy | None, *, medium: str = "SSD", memory_bytes: int | None = None
) -> World:
    """Two workers for four nodes. A JindoRuntime keeps a tenth of each quota free."""
    text = SEED.replace("replicas: 4", "replicas: 2").replace("180G", quota).replace("SSD", medium)
    nodes = tuple(dataclasses.replace(each, memory_bytes=memory_bytes) for each in gpu_nodes(4))
    world = World.of(text, nodes)
    assert world.dataset is not None
    world.dataset = changed(world.dataset, placement="Shared")
    world.see(policy=allowed)
    return world


def others(count: int, quota_gib: int, medium: str = "SSD", namespace: str = "team-b") -> dict[str, Any]:
    """Workers of another dataset on the first nodes."""
    other = OtherWorker(f"{namespace}/corpus", is_exclusive=False, quotas={medium: quota_gib * GI})
    return {f"node-{number}": (other,) for number in range(1, count + 1)}


def said(world: World, kind: str = "Ready") -> str:
    status = world.reconcile().dataset_status
    assert status is not None
    (found,) = [each for each in status.conditions if each.type == kind]
    return f"{found.reason}: {found.message}"


def nodes_of_workers(world: World) -> set[str | None]:
    return {role.node for role in world.plan().roles if role.id.startswith("worker")}


def test_a_worker_goes_where_the_quotas_stay_below_the_limit() -> None:
    world = world_of("100Gi", policy(cachePerNode={"SSD": "150Gi"}))
    world.see(others=others(2, 80))
    assert nodes_of_workers(world) == {"node-3", "node-4"}
    world.see(others=others(2, 60))
    assert nodes_of_workers(world) == {"node-3", "node-4"}, "the emptier ones first"
    world.see(others=others(4, 60))
    assert len(nodes_of_workers(world)) == 2


def test_what_is_too_much_is_refused_in_words() -> None:
    world = world_of("100Gi", policy(cachePerNode={"SSD": "150Gi"}))
    world.see(others=others(4, 80))
    assert nodes_of_workers(world) == set()
    words = said(world)
    assert words.startswith("NodesFull")
    for each in ("2 of 2 workers", "SSD", "150.00GiB", "node-1", "policy.cachePerNode"):
        assert each in words, each


def test_a_share_of_memory_is_one_of_the_node_s() -> None:
    world = world_of("40Gi", policy(), medium="MEM", memory_bytes=64 * GI)
    assert nodes_of_workers(world) == set()
    assert "32.00GiB" in said(world)
    world = world_of("30Gi", policy(), medium="MEM", memory_bytes=64 * GI)
    assert len(nodes_of_workers(world)) == 2
    assert len(nodes_of_workers(world_of("9Ti", None, medium="MEM", memory_bytes=64 * GI))) == 2


def test_a_namespace_has_a_limit_of_its_own() -> None:
    allowed = policy(namespaceCachePerNode={"SSD": "120Gi"})
    world = world_of("100Gi", allowed)
    world.see(others=others(4, 500))
    assert len(nodes_of_workers(world)) == 2
    world.see(others=others(4, 40, namespace="default"))
    assert nodes_of_workers(world) == set()
    assert "policy.cachePerNode" in said(world)


def test_a_quota_that_grows_beyond_the_limit_is_not_taken_and_what_runs_goes_on() -> None:
    world = world_of("100Gi", policy(cachePerNode={"SSD": "150Gi"}))
    world.see(others=others(4, 40))
    world.settle()
    before = {each.id: each.version for each in world.seen.roles if each.role == "worker"}
    assert len(before) == 2
    world.runtime = changed(world.runtime, tieredstore={"levels": [LEVEL | {"quota": "1Ti"}]})
    made = world.settle()
    assert made.steps.replace == ()
    assert {each.id: each.version for each in world.seen.roles if each.role == "worker"} == before
    assert all(each.state is RoleState.READY for each in world.seen.roles)
    assert said(world, "Degraded").startswith("NodesFull")
    assert made.exceeds
    world.runtime = changed(world.runtime, tieredstore={"levels": [LEVEL | {"quota": "110Gi"}]})
    world.settle()
    after = {each.id: each.version for each in world.seen.roles if each.role == "worker"}
    assert after.keys() == before.keys()
    assert after != before


@pytest.mark.parametrize(
    ("exclusive", "namespace", "is_free"),
    [
        ("Namespace", "team-b", True),
        ("Namespace", "default", False),
        ("Cluster", "team-b", False),
        ("", "team-b", False),
    ],
)
def test_a_dataset_keeps_off_its_nodes_those_of_its_own_namespace_alone(
    exclusive: str, namespace: str, is_free: bool
) -> None:
    """Else whoever comes first, with a quota of nothing, has all nodes. Where nobody set a policy it is as in Fluid."""
    world = world_of("100Gi", policy(exclusivePlacement=exclusive) if exclusive else None)
    assert world.dataset is not None
    other = OtherWorker(f"{namespace}/corpus", is_exclusive=True)
    world.see(others=dict.fromkeys(("node-1", "node-2", "node-3", "node-4"), (other,)))
    assert len(nodes_of_workers(world)) == (2 if is_free else 0)
    world.dataset = changed(world.dataset, placement="Exclusive")
    world.see(
        others=dict.fromkeys(
            ("node-1", "node-2", "node-3", "node-4"), (dataclasses.replace(other, is_exclusive=False),)
        )
    )
    assert len(nodes_of_workers(world)) == (2 if is_free else 0)


@pytest.mark.parametrize(
    "limits",
    [{"SSD": "50%"}, {"MEM": "0%"}, {"MEM": "101%"}, {"TAPE": "1Gi"}, {"SSD": "lots"}, {"SSD": "-1Gi"}],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="cachePerNode"):
        policy(cachePerNode=limits)

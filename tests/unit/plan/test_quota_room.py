"""Quotas that are larger than their disks or memory: said, and no hindrance."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from planned import GPU, SEED, World, changed

from headrace.plan.condition_times import condition_of
from headrace.plan.observed import Node, Room

GIB = 1 << 30
TYPE = "CacheOvercommitted"


def nodes(disks: Mapping[str, Room] | None = None, memory: Room | None = None) -> tuple[Node, ...]:
    """Four nodes that share these disks."""
    return tuple(Node(f"node-{n}", GPU, disks=disks or {}, memory=memory) for n in range(1, 5))


def disk(free_bytes: int, folder: str = "/var") -> dict[str, Room]:
    return {folder: Room("sda", free_bytes)}


def settled(*, text: str = SEED, **where: object) -> tuple[World, object]:
    world = World.of(text, nodes(**where))  # type: ignore[arg-type]
    made = world.settle()
    assert made.dataset_status is not None
    assert made.dataset_status.phase == "Bound"
    return world, condition_of(made.dataset_status.conditions, TYPE)


@pytest.mark.parametrize(
    ("free_gib", "warned"), [(700, False), (648, False), (647, True), (100, True), (0, True)]
)
def test_workers_that_share_a_disk_are_counted_together_and_are_bound_all_the_same(
    free_gib: int, warned: bool
) -> None:
    world, said = settled(disks=disk(free_gib * GIB))
    assert len(world.workers()) == 4
    assert (said is not None) == warned
    if said is not None:
        assert (said.status, said.reason) == ("True", "QuotaLargerThanDisk")
        assert (
            "on node-1, node-2, node-3, node-4: the quotas of 4 workers together are 648.00GiB"
            in said.message
        )
        assert "smaller quota" in said.message
        told = [
            event for plan in world.plans for event in plan.events if event.reason == "QuotaLargerThanDisk"
        ]
        assert [event.type for event in told] == ["Warning"]


def test_each_node_has_a_disk_of_its_own_where_it_says_so() -> None:
    each = tuple(Node(f"node-{n}", GPU, disks={"/": Room(f"disk-{n}", 170 * GIB)}) for n in range(1, 5))
    world = World.of(SEED, each)
    made = world.settle()
    assert condition_of(made.dataset_status.conditions, TYPE) is None
    small = dataclasses.replace(each[2], disks={"/": Room("disk-3", 100 * GIB)})
    world.see(nodes=(*each[:2], small, each[3]))
    said = condition_of(world.reconcile().dataset_status.conditions, TYPE)
    assert said.message.startswith("on node-3: the quotas of 1 worker are 162.00GiB")
    smaller = tuple(dataclasses.replace(node, disks={"/": Room(node.name, GIB)}) for node in each[:3])
    roomy = dataclasses.replace(each[3], disks={"/": Room("disk-4", 200 * GIB)})
    world.see(nodes=(*smaller, roomy))
    said = condition_of(world.reconcile().dataset_status.conditions, TYPE)
    assert said.message.startswith("on each of node-1, node-2, node-3: the quotas of 1 worker are 162.00GiB")
    assert ";" not in said.message


def test_memory_is_counted_as_well() -> None:
    text = SEED.replace(
        "mediumtype: SSD, path: /var/lib/docker/jindo, quota: 180G", "mediumtype: MEM, quota: 10Gi"
    )
    _, said = settled(text=text, memory=Room("machine", 30 * GIB))
    assert "4 workers together are 36.00GiB, and memory has less room" in said.message
    _, said = settled(text=text, memory=Room("machine", 36 * GIB))
    assert said is None


def test_folders_that_nobody_knows_of_are_large_enough() -> None:
    assert settled(disks=disk(1, "/other"))[1] is None


def test_what_is_said_stays_while_files_come_and_go() -> None:
    world, _ = settled(disks=disk(647 * GIB))
    for free_gib in (649, 640, 660, 0):
        world.see(nodes=nodes(disks=disk(free_gib * GIB)))
        assert world.reconcile().dataset_status == world.plans[-2].dataset_status
    world.see(nodes=nodes(disks=disk(700 * GIB)))
    assert condition_of(world.reconcile().dataset_status.conditions, TYPE).status == "False"


def test_a_master_that_is_away_makes_no_cache_look_empty() -> None:
    world, said = settled(disks=disk(700 * GIB))
    world.see(nodes=nodes(disks=disk(700 * GIB)))
    assert said is None
    world, _ = settled(disks=disk(100 * GIB))
    world.see(nodes=nodes(disks=disk(10**15)), roles=tuple(r for r in world.seen.roles if r.id != "master"))
    assert condition_of(world.plan().dataset_status.conditions, TYPE).status == "True"


def test_a_smaller_quota_ends_it_and_a_wrong_declaration_does_not() -> None:
    world, _ = settled(disks=disk(100 * GIB))
    good = world.dataset.spec.mounts
    world.dataset = changed(world.dataset, mounts=[{"mountPoint": "juicefs://x", "name": "a"}])
    assert condition_of(world.reconcile().dataset_status.conditions, TYPE).status == "True"
    world.dataset = world.dataset.model_copy(
        update={"spec": world.dataset.spec.model_copy(update={"mounts": good})}
    )
    level = {"mediumtype": "SSD", "path": "/var/lib/docker/jindo", "quota": "20G"}
    world.runtime = changed(world.runtime, tieredstore={"levels": [level]})
    assert condition_of(world.settle().dataset_status.conditions, TYPE).status == "False"


def test_nodes_with_room_come_first() -> None:
    rooms = {n: Room(f"disk-{n}", (200 if n > 2 else 10) * GIB) for n in range(1, 5)}
    each = tuple(Node(f"node-{n}", GPU, disks={"/": room}) for n, room in rooms.items())
    world = World.of(SEED.replace("replicas: 4", "replicas: 3"), each)
    world.settle()
    assert world.workers() == {"worker-0": "node-3", "worker-1": "node-4", "worker-2": "node-1"}


def test_the_capacity_is_what_the_quotas_say_also_where_workers_were_given_less() -> None:
    world = World.of(SEED, nodes(disk(100 * GIB)))
    world.largest_quota_bytes = 90 * GIB
    made = world.settle()
    assert made.dataset_status is not None
    assert made.runtime_status is not None
    assert made.dataset_status.cache_states["cacheCapacity"] == "648.00GiB"
    assert made.runtime_status.cache_states["cacheCapacity"] == "648.00GiB"

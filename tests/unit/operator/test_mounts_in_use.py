"""Whatever happens to what is declared: a mount that somebody reads through is not taken away."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from operator_context import OperatorWorld
from planned import GPU, SEED

DATASET, RUNTIME = ("Dataset", "default", "imagenet"), ("JindoRuntime", "default", "imagenet")
MOUNTS = ("DaemonSet", "default", "imagenet-fuse")


def keep_off(world: OperatorWorld) -> None:
    """The runtime wants no mounts where the program runs."""
    world.declare(SEED.replace("  replicas: 4", "  fuse: {nodeSelector: {zone: elsewhere}}\n  replicas: 4"))


def lose_secret(world: OperatorWorld) -> None:
    world.cluster.remove(("Secret", "default", "mysecret"))


def lose_mounts(world: OperatorWorld) -> None:
    world.declare(SEED.replace("mountPoint: oss", "mountPoint: gopher"))


def lose_dataset(world: OperatorWorld) -> None:
    """Somebody takes off the finalizer as well, so that it is gone at once."""
    content = world.cluster.objects[DATASET]
    world.cluster._store(DATASET, {**content, "metadata": {**content["metadata"], "finalizers": []}})
    world.cluster.remove(DATASET)


def lose_nodes(world: OperatorWorld) -> None:
    """The machines are not in the list for a while."""
    for number in range(1, 5):
        world.cluster.remove(("Node", "", f"node-{number}"))


def ask_for_nothing(world: OperatorWorld) -> None:
    world.declare(SEED.replace("replicas: 4", "replicas: 0"))


def delete_runtime(world: OperatorWorld) -> None:
    world.cluster.remove(RUNTIME)


def delete_all(world: OperatorWorld) -> None:
    for key in (DATASET, RUNTIME):
        world.cluster.remove(key)


HARMS = [
    keep_off,
    lose_secret,
    lose_mounts,
    lose_dataset,
    lose_nodes,
    ask_for_nothing,
    delete_runtime,
    delete_all,
]


@pytest.fixture
def read(world: OperatorWorld) -> OperatorWorld:
    """A dataset that is read on one node."""
    world.declare()
    world.settle()
    world.use("train", "node-1")
    world.settle()
    return world


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_mount_that_is_read_stays(
    read: OperatorWorld, harm: Callable[[OperatorWorld], None], restarts: bool
) -> None:
    mounts = read.cluster.objects[MOUNTS]["metadata"]["uid"]
    harm(read)
    if restarts:
        read.restart()
    for _ in range(12):
        read.reconcile()
        assert "fuse@node-1" in read.pods()
    assert read.cluster.objects[MOUNTS]["metadata"]["uid"] == mounts


@pytest.mark.parametrize("harm", HARMS)
def test_a_mount_that_died_comes_back_where_it_is_read(
    read: OperatorWorld, harm: Callable[[OperatorWorld], None]
) -> None:
    """Its pod is away at the moment at which something changes; the set makes it anew."""
    pods = {
        pod["spec"]["nodeName"]: pod for pod in read.cluster.of("Pod") if "-fuse-" in pod["metadata"]["name"]
    }
    read.cluster.remove(("Pod", "default", pods["node-1"]["metadata"]["name"]))
    read.wanted |= read.sync()
    harm(read)
    read.wanted |= read.sync()
    read.look_only()
    read.cluster.turn()
    for _ in range(12):
        read.reconcile()
    if harm is lose_nodes:
        for number in range(1, 5):
            read.cluster.add_node(f"node-{number}", GPU)
        read.reconcile()
    assert "fuse@node-1" in read.pods()


def test_all_pods_gone_at_once_sweep_nothing_that_is_read(read: OperatorWorld) -> None:
    keep_off(read)
    for pod in read.cluster.of("Pod"):
        if "imagenet-" in pod["metadata"]["name"]:
            read.cluster.remove(("Pod", "default", pod["metadata"]["name"]))
    read.wanted |= read.sync()
    read.look_only()
    assert MOUNTS in read.cluster.objects
    assert not [pod for pod in read.cluster.of("Pod") if pod["metadata"]["namespace"] == "headrace-system"]


def test_a_mount_goes_once_nobody_reads_through_it(read: OperatorWorld) -> None:
    lose_dataset(read)
    read.leave("train")
    for _ in range(20):
        read.reconcile()
    assert MOUNTS not in read.cluster.objects
    assert not [
        key for key in read.cluster.objects if key[0] in ("PersistentVolume", "PersistentVolumeClaim")
    ]

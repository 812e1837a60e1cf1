"""What makes no sense to us, and was taken in by the API server, can still be deleted."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from operator_context import OperatorWorld
from planned import SEED

DATASET, RUNTIME = ("Dataset", "default", "imagenet"), ("JindoRuntime", "default", "imagenet")
TWICE = {"accessModes": ["ReadWriteMany", "ReadWriteMany"]}
NO_QUOTA = {"replicas": "many"}
LOAD = {
    "apiVersion": "data.fluid.io/v1alpha1",
    "kind": "DataLoad",
    "metadata": {
        "name": "warm",
        "namespace": "default",
        "finalizers": ["fluid-dataload-controller-finalizer", "someone.else/keep"],
    },
    "spec": {"dataset": {"name": "imagenet", "namespace": "default"}, "target": "everything"},
}


def spoil(world: OperatorWorld, key: tuple[str, str, str], **spec: Any) -> None:
    """Somebody writes what the schema lets through and the model refuses."""
    content = world.cluster.objects[key]
    world.cluster._store(key, {**content, "spec": {**content["spec"], **spec}})


def looks(world: OperatorWorld, count: int = 15) -> None:
    for _ in range(count):
        world.reconcile()


@pytest.mark.parametrize(
    ("key", "spec"), [(DATASET, TWICE), (RUNTIME, NO_QUOTA), (DATASET, {"mounts": [{"mountPoint": "?"}]})]
)
@pytest.mark.parametrize("status", ["as it was", "nonsense"])
def test_an_invalid_object_goes_with_all_that_was_made_for_it(
    world: OperatorWorld, key: tuple[str, str, str], spec: dict[str, Any], status: str
) -> None:
    world.declare()
    world.settle()
    spoil(world, key, **spec)
    if status == "nonsense":
        content = world.cluster.objects[key]
        world.cluster._store(key, {**content, "status": {"phase": "Unheard", "conditions": 3}})
    for each in (DATASET, RUNTIME):
        world.cluster.remove(each)
    looks(world)
    left = {kind for kind, *_ in world.cluster.objects} - {"Node", "Secret", "Event"}
    assert left == set()
    assert [name for kind, _, name in world.cluster.objects if kind == "Secret"] == ["mysecret"]


def test_an_invalid_runtime_goes_alone_and_its_dataset_stays(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    spoil(world, RUNTIME, **NO_QUOTA)
    world.cluster.remove(RUNTIME)
    looks(world)
    assert RUNTIME not in world.cluster.objects
    assert world.get("Dataset", "imagenet")["status"]["phase"] == "NotBound"
    assert not [name for name in world.pods() if name.startswith("imagenet")]


def test_an_invalid_dataset_that_is_read_waits_for_its_readers(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    node = world.pods()["imagenet-worker-0"]
    world.use("train", node)
    world.reconcile()
    before = world.pods()
    spoil(world, DATASET, **TWICE)
    for each in (DATASET, RUNTIME):
        world.cluster.remove(each)
    looks(world)
    assert world.pods() == before
    assert world.get("PersistentVolumeClaim", "imagenet")
    conditions = world.get("Dataset", "imagenet")["status"]["conditions"]
    assert "VolumeInUse" in [each["reason"] for each in conditions]
    world.leave("train")
    looks(world)
    assert DATASET not in world.cluster.objects


@pytest.mark.parametrize("dataset", [SEED, SEED.replace("mountPoint: oss", "mountPoint: o ss"), ""])
def test_an_invalid_operation_goes_and_keeps_what_others_hold_it_for(
    world: OperatorWorld, dataset: str
) -> None:
    world.declare(f"{dataset}\n---\n{yaml.safe_dump(LOAD)}" if dataset else yaml.safe_dump(LOAD))
    looks(world, 3)
    world.cluster.remove(("DataLoad", "default", "warm"))
    looks(world, 3)
    assert world.get("DataLoad", "warm")["metadata"]["finalizers"] == ["someone.else/keep"]

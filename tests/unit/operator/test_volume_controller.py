"""The volume of a dataset follows what is declared, and nobody else's is ever touched."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from operator_context import OperatorWorld
from planned import SEED

from headrace.plan.volume import volume_name

DATASET, RUNTIME = ("Dataset", "default", "imagenet"), ("JindoRuntime", "default", "imagenet")
VOLUME, CLAIM = ("PersistentVolume", "", "imagenet"), ("PersistentVolumeClaim", "default", "imagenet")
SIZE = "pvc.fluid.io/resources.requests.storage"


def degraded(world: OperatorWorld) -> str:
    """The reason of the dataset's condition, and its message."""
    conditions = world.get("Dataset", "imagenet")["status"]["conditions"]
    found = [each for each in conditions if each["type"] == "Degraded" and each["status"] == "True"]
    return f"{found[0]['reason']}: {found[0]['message']}" if found else ""


def declare_modes(world: OperatorWorld) -> None:
    world.declare(SEED.replace("  nodeAffinity", "  accessModes: [ReadOnlyMany]\n  nodeAffinity"))


def declare_size(world: OperatorWorld, size: str = "3Ti") -> None:
    content = copy.deepcopy(world.cluster.objects[DATASET])
    content["metadata"]["annotations"] = {SIZE: size}
    world.cluster._store(DATASET, content)


def delete_volume(world: OperatorWorld) -> None:
    world.cluster.remove(VOLUME)


def delete_claim(world: OperatorWorld) -> None:
    world.cluster.remove(CLAIM)


CHANGES = [declare_modes, declare_size, delete_volume, delete_claim]


@pytest.mark.parametrize("change", CHANGES)
def test_a_volume_that_nobody_uses_is_made_anew(world: OperatorWorld, change: Any) -> None:
    world.declare()
    world.settle()
    before = world.cluster.objects[VOLUME]["metadata"]["uid"]
    change(world)
    world.settle()
    volume, claim = world.cluster.objects[VOLUME]["spec"], world.cluster.objects[CLAIM]["spec"]
    if change is not delete_claim:
        assert world.cluster.objects[VOLUME]["metadata"]["uid"] != before
    modes = ["ReadOnlyMany"] if change is declare_modes else ["ReadWriteMany"]
    size = "3Ti" if change is declare_size else "100Gi"
    assert (volume["accessModes"], volume["capacity"]["storage"]) == (modes, size)
    assert (claim["accessModes"], claim["resources"]["requests"]["storage"]) == (modes, size)
    assert degraded(world) == ""


@pytest.mark.parametrize("change", CHANGES)
def test_a_volume_in_use_stays_and_the_dataset_says_why(world: OperatorWorld, change: Any) -> None:
    world.declare()
    world.settle()
    world.use("train", "node-1")
    world.settle()
    before = [world.cluster.objects[key]["metadata"]["uid"] for key in (VOLUME, CLAIM)]
    change(world)
    world.settle()
    assert [world.cluster.objects[key]["metadata"]["uid"] for key in (VOLUME, CLAIM)] == before
    assert degraded(world).startswith("VolumeOutdated: the volume ")
    assert "pod default/train on node-1" in degraded(world)
    world.leave("train")
    world.settle()
    assert world.cluster.objects[CLAIM]["metadata"]["uid"] != before[1]
    assert degraded(world) == ""


@pytest.mark.parametrize("size", ["102400Mi", "107374182400"])
def test_the_same_size_in_other_words_is_the_same(world: OperatorWorld, size: str) -> None:
    world.declare()
    world.settle()
    before = world.cluster.objects[VOLUME]["metadata"]["uid"]
    declare_size(world, size)
    world.settle()
    assert world.cluster.objects[VOLUME]["metadata"]["uid"] == before


@pytest.mark.parametrize("size", ["plenty", "-1Gi", "0"])
def test_a_size_that_is_none_is_said_to_be_ignored(world: OperatorWorld, size: str) -> None:
    world.declare()
    declare_size(world, size)
    world.settle()
    assert world.cluster.objects[VOLUME]["spec"]["capacity"]["storage"] == "100Gi"
    conditions = world.get("Dataset", "imagenet")["status"]["conditions"]
    (ignored,) = [each["message"] for each in conditions if each["type"] == "FieldsIgnored"]
    assert SIZE in ignored


def stranger(**more: Any) -> dict[str, Any]:
    """A volume that a person made: of our driver, and under the name that the dataset's would have."""
    csi = {"driver": "fuse.csi.fluid.io", "volumeHandle": "own", "volumeAttributes": {"dataset": "team/x"}}
    spec = {"csi": csi, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], **more}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "imagenet"}, "spec": spec}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"claimRef": {"namespace": "team", "name": "imagenet"}},
        {"claimRef": {"namespace": "default", "name": "imagenet"}},
    ],
)
def test_a_volume_of_somebody_else_is_neither_used_nor_deleted(
    world: OperatorWorld, spec: dict[str, Any]
) -> None:
    world.cluster.add(stranger(**spec))
    before = copy.deepcopy(world.cluster.objects[VOLUME])
    world.declare()
    world.settle()
    assert CLAIM not in world.cluster.objects
    assert degraded(world).startswith("VolumeTaken: volume imagenet is not the dataset's")
    for key in (DATASET, RUNTIME):
        world.cluster.remove(key)
    for _ in range(15):
        world.reconcile()
    assert DATASET not in world.cluster.objects
    assert world.cluster.objects[VOLUME] == before


def test_a_claim_of_somebody_else_stays_theirs(world: OperatorWorld) -> None:
    spec = {"volumeName": "theirs", "accessModes": ["ReadWriteOnce"]}
    metadata = {"name": "imagenet", "namespace": "default"}
    world.cluster.add(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    )
    before = copy.deepcopy(world.cluster.objects[CLAIM])
    world.declare()
    world.settle()
    assert VOLUME not in world.cluster.objects
    assert degraded(world).startswith("VolumeTaken: claim default/imagenet is not the dataset's")
    for key in (DATASET, RUNTIME):
        world.cluster.remove(key)
    for _ in range(15):
        world.reconcile()
    assert world.cluster.objects[CLAIM] == before


def test_a_claim_that_lost_its_volume_gets_one_that_names_it(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    world.cluster.objects.pop(VOLUME)
    world.cluster.changes.append(("PersistentVolume", "DELETED", {"metadata": {"name": "imagenet"}}))
    world.settle()
    bound = world.cluster.objects[VOLUME]["spec"]["claimRef"]["uid"]
    assert bound == world.cluster.objects[CLAIM]["metadata"]["uid"]


def test_a_reference_that_leads_elsewhere_gets_another_volume(world: OperatorWorld) -> None:
    part = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: part, namespace: default}
spec: {mounts: [{mountPoint: "dataset://default/imagenet/imagenet/train"}]}
"""
    world.declare()
    world.declare(part)
    world.settle()
    world.declare(part.replace("train", "val"))
    world.settle()
    shown = world.cluster.objects["PersistentVolume", "", "part"]["spec"]["csi"]["volumeAttributes"]
    assert shown == {"dataset": "default/part", "subPath": "imagenet/val"}


def test_the_longest_names_make_a_name_that_a_volume_may_have() -> None:
    assert len(volume_name("n" * 63, "d" * 63)) <= 253

"""A Dataset of another namespace: what the owner's consent gives it, and what it gets without."""

from __future__ import annotations

from typing import Any

import pytest
from operator_context import OperatorWorld
from planned import SEED

from headrace.api.kinds import RUNTIMES

MIRROR = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: mirror, namespace: team}
spec: {mounts: [{mountPoint: "dataset://default/imagenet"}]}
"""
SHARED = SEED.replace("spec:\n  mounts:", "spec:\n  sharedWith: [team]\n  mounts:")


def settled(world: OperatorWorld, *texts: str) -> None:
    """After these were declared."""
    for text in texts:
        world.declare(text)
    world.settle()


def of_team(world: OperatorWorld) -> set[tuple[str, str]]:
    """What was made for the stranger, and the volumes that lead to it."""
    made = {(kind, name) for kind, space, name in world.cluster.objects if space == "team"}
    volumes = {("PersistentVolume", name) for kind, _, name in world.cluster.objects if name == "mirror.team"}
    return {each for each in made | volumes if each[0] not in ("Dataset", "Event")}


def ready(world: OperatorWorld) -> dict[str, Any]:
    """What the stranger is told."""
    status = world.cluster.objects["Dataset", "team", "mirror"]["status"]
    return next(each for each in status["conditions"] if each["type"] == "Ready")


def use(world: OperatorWorld, name: str = "train") -> None:
    """A pod of the stranger's namespace reads."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "mirror"}}
    metadata = {"name": name, "namespace": "team", "labels": {}}
    spec = {"nodeName": "node-1", "volumes": [volume]}
    world.cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}})


def delete_owner(world: OperatorWorld) -> None:
    for kind in ("Dataset", *RUNTIMES):
        if (kind, "default", "imagenet") in world.cluster.objects:
            world.cluster.remove((kind, "default", "imagenet"))


def test_without_consent_a_stranger_gets_nothing_and_holds_nothing(world: OperatorWorld) -> None:
    settled(world, SEED, MIRROR)
    assert of_team(world) == set()
    assert ready(world)["reason"] == "DatasetNotShared"
    owner = world.cluster.objects["Dataset", "default", "imagenet"]
    assert "datasetRef" not in owner["status"]
    delete_owner(world)
    world.settle()
    assert ("Dataset", "default", "imagenet") not in world.cluster.objects


@pytest.mark.parametrize(
    "owner", ["", SEED, SEED.replace("spec:\n  mounts", "spec:\n  accessModes: [A]\n  mounts", 1)]
)
def test_a_stranger_does_not_learn_whether_there_is_a_dataset(world: OperatorWorld, owner: str) -> None:
    """Missing, not shared, or one whose declaration makes no sense: the words are the same."""
    settled(world, *([owner] if owner else []), MIRROR)
    told = {key: value for key, value in ready(world).items() if "Time" not in key}
    assert told["reason"] == "DatasetNotShared"
    assert told["message"].startswith(
        "team/mirror refers to dataset default/imagenet, which is not shared with namespace team"
    )
    events = [each["reason"] for each in world.cluster.of("Event") if each["metadata"]["namespace"] == "team"]
    assert set(events) <= {"DatasetNotShared", "NotReady"}


def test_a_stranger_with_consent_reads_by_mounts_of_its_own(world: OperatorWorld) -> None:
    settled(world, SHARED, MIRROR)
    use(world)
    world.settle()
    assert ready(world)["status"] == "True"
    shown = world.cluster.objects["PersistentVolume", "", "mirror.team"]["spec"]["csi"]["volumeAttributes"]
    assert shown["dataset"] == "team/mirror", "the owner's mounts are for who may use the owner's claim"
    assert {"DaemonSet", "Secret", "PersistentVolumeClaim"} <= {kind for kind, _ in of_team(world)}
    delete_owner(world)
    world.settle()
    held = world.cluster.objects["Dataset", "default", "imagenet"]
    assert held["status"]["datasetRef"] == ["team/mirror"]


def token_of(world: OperatorWorld, namespace: str, name: str, key: str) -> str | None:
    """What is in a Secret."""
    content = world.cluster.objects.get(("Secret", namespace, f"{name}-headrace-token")) or {}
    data: dict[str, str] = content.get("data") or {}
    return data.get(key)


def ask_for_token(world: OperatorWorld, word: str) -> None:
    """The owner writes the annotation."""
    key = ("Dataset", "default", "imagenet")
    content = world.cluster.objects[key]
    noted = {"headrace.io/token-version": word} if word else {}
    world.cluster._store(key, {**content, "metadata": {**content["metadata"], "annotations": noted}})


def test_the_owner_has_another_token_made_that_a_former_reader_does_not_know(world: OperatorWorld) -> None:
    settled(world, SHARED, MIRROR)
    use(world)
    world.settle()
    copied = token_of(world, "team", "mirror", "reader")
    assert copied == token_of(world, "default", "imagenet", "reader")
    settled(world, SEED)
    begun = {
        pod["metadata"]["uid"] for pod in world.cluster.of("Pod") if "imagenet-" in pod["metadata"]["name"]
    }
    ask_for_token(world, "2")
    world.settle()
    fresh = {
        pod["metadata"]["uid"] for pod in world.cluster.of("Pod") if "imagenet-" in pod["metadata"]["name"]
    }
    assert not fresh & begun, "nothing that runs takes the token that was copied"
    assert token_of(world, "default", "imagenet", "reader") not in (copied, None)
    assert [each["reason"] for each in world.cluster.of("Event") if each["reason"].startswith("Token")] == [
        "TokenChanged"
    ]
    ready = world.cluster.objects["Dataset", "default", "imagenet"]["status"]
    assert ready["phase"] == "Bound"
    made = token_of(world, "default", "imagenet", "token")
    world.restart(b"another key")
    world.settle()
    assert token_of(world, "default", "imagenet", "token") == made, (
        "an operator installed anew changes nothing"
    )
    ask_for_token(world, "")
    world.settle()
    assert token_of(world, "default", "imagenet", "token") == made, (
        "the one that was copied does not come back"
    )
    ask_for_token(world, "3")
    world.settle()
    assert token_of(world, "default", "imagenet", "token") not in (made, None)


def test_those_who_may_read_get_the_other_token_too(world: OperatorWorld) -> None:
    settled(world, SHARED, MIRROR)
    use(world)
    world.settle()
    ask_for_token(world, "2")
    world.settle()
    assert token_of(world, "team", "mirror", "reader") == token_of(world, "default", "imagenet", "reader")
    assert ready(world)["status"] == "True"


def test_who_is_taken_off_the_list_is_cut_off_and_holds_nothing(world: OperatorWorld) -> None:
    settled(world, SHARED, MIRROR)
    use(world)
    world.settle()
    settled(world, SEED)
    assert ready(world)["reason"] == "DatasetNotShared"
    left = {kind for kind, _ in of_team(world)}
    assert not left & {"DaemonSet", "Secret"}
    assert "-fuse-" not in "".join(name for kind, name in of_team(world) if kind == "Pod")
    delete_owner(world)
    world.settle()
    assert ("Dataset", "default", "imagenet") not in world.cluster.objects
    world.cluster.remove(("Pod", "team", "train"))
    world.settle()
    assert of_team(world) == set()

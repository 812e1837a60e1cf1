"""The token of a cluster that somebody takes away or writes over, while roles and readers go on."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from operator_context import OperatorWorld

from headrace.operator.rendering.role_tokens import token_data
from headrace.operator.token_digests import is_locked_out

TOKEN = ("Secret", "default", "imagenet-headrace-token")
PART = """
apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: part, namespace: default}
spec: {mounts: [{mountPoint: "dataset://default/imagenet"}]}
"""


def secret(token: str, name: str = TOKEN[2]) -> dict[str, Any]:
    data = {"token": base64.b64encode(token.encode()).decode()}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def write_over(world: OperatorWorld) -> None:
    world.cluster._store(TOKEN, {**world.cluster.objects[TOKEN], "data": secret("mine")["data"]})


def empty(world: OperatorWorld) -> None:
    world.cluster._store(TOKEN, {**world.cluster.objects[TOKEN], "data": {}})


def delete(world: OperatorWorld) -> None:
    world.cluster.remove(TOKEN)


def uids(world: OperatorWorld) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.cluster.of("Pod")}


def notes(world: OperatorWorld) -> set[str]:
    pods = (pod["metadata"].get("annotations") or {} for pod in world.cluster.of("Pod"))
    return {noted["headrace.io/token"] for noted in pods if "headrace.io/token" in noted}


def reasons(world: OperatorWorld) -> list[str]:
    return [each["reason"] for each in world.cluster.of("Event") if each["reason"].startswith("Token")]


@pytest.mark.parametrize("harm", [delete, write_over, empty])
def test_a_token_comes_back_as_it_was_and_nothing_is_disturbed(world: OperatorWorld, harm: Any) -> None:
    world.declare()
    world.settle()
    world.use("train", "node-1")
    world.settle()
    before, running = world.cluster.objects[TOKEN]["data"], uids(world)
    harm(world)
    assert world.sync() == {("default", "imagenet")}, "nobody has to ask for the look"
    world.settle()
    assert world.cluster.objects[TOKEN]["data"] == before
    assert uids(world) == running
    assert reasons(world) == ["TokenRestored"]


def test_each_dataset_has_a_token_of_its_own_each_time_that_it_is_made(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    first = world.cluster.objects[TOKEN]["data"]["token"]
    for kind in ("Dataset", "JindoRuntime"):
        world.cluster.remove((kind, "default", "imagenet"))
    for _ in range(15):
        world.reconcile()
    world.declare()
    world.settle()
    second = world.cluster.objects[TOKEN]["data"]["token"]
    assert first != second
    assert len(base64.b64decode(second)) == 64


def test_a_token_that_cannot_be_had_again_is_followed_by_all_in_their_order(world: OperatorWorld) -> None:
    # As it was made by an operator with another key.
    world.cluster.add(secret("of-old"))
    world.declare()
    world.declare(PART)
    world.settle()
    world.use("train", "node-1")
    world.settle()
    before, mounts = uids(world), world.cluster.objects["DaemonSet", "default", "imagenet-fuse"]["metadata"]
    delete(world)
    begun = len(world.cluster.writes)
    world.settle()
    roles = {pod["metadata"]["uid"] for pod in world.cluster.of("Pod") if "fuse" in pod["metadata"]["name"]}
    roles |= {pod["metadata"]["uid"] for pod in world.cluster.of("Pod") if "-er-" in pod["metadata"]["name"]}
    assert not roles & before, "the mount that is read, too"
    assert len(notes(world)) == 1
    assert world.cluster.objects["DaemonSet", "default", "imagenet-fuse"]["metadata"]["uid"] == mounts["uid"]
    deleted = [
        name for verb, kind, name in world.cluster.writes[begun:] if (verb, kind) == ("delete(None)", "Pod")
    ]
    gone = [name for name in deleted if name.startswith("imagenet")]
    order = [next(kind for kind in ("master", "worker", "fuse") if kind in name) for name in gone]
    assert order == sorted(order, key=["master", "worker", "fuse"].index)
    assert order.count("worker") == 4
    assert "TokenLost" in reasons(world)


@pytest.mark.parametrize("of_old", [False, True], ids=["made here", "of an earlier version"])
def test_an_operator_that_was_installed_anew_starts_nothing_anew(world: OperatorWorld, of_old: bool) -> None:
    if of_old:
        world.cluster.add(secret("of-old"))
    world.declare()
    world.declare(PART)
    world.settle()
    world.use("train", "node-1")
    world.use("other", "node-2", claim="part")
    world.settle()
    before, running, begun = tokens_of(world), uids(world), len(world.cluster.writes)
    world.restart(b"another key")
    world.settle()
    assert uids(world) == running
    assert tokens_of(world) == before
    changed = [each for each in world.cluster.writes[begun:] if each[1] not in ("Lease", "Event")]
    assert not [each for each in changed if each[1] in ("Secret", "StatefulSet", "DaemonSet", "Pod")]
    assert not reasons(world)


def change_keys(world: OperatorWorld) -> None:
    key = ("Secret", "default", "mysecret")
    changed = {**world.cluster.objects[key]["data"], "fs.oss.accessKeyId": "b3RoZXI="}
    world.cluster._store(key, {**world.cluster.objects[key], "data": changed})


def readers_of_keys(world: OperatorWorld) -> set[str]:
    """The uids of master and workers."""
    pods = [pod for pod in world.cluster.of("Pod") if pod["metadata"]["name"].startswith("imagenet-")]
    return {pod["metadata"]["uid"] for pod in pods if "-fuse-" not in pod["metadata"]["name"]}


def test_a_change_of_keys_is_seen_by_an_operator_that_was_installed_anew(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    running = readers_of_keys(world)
    change_keys(world)
    world.restart(b"another key")
    world.settle()
    assert not readers_of_keys(world) & running


def test_nobody_who_sees_pods_can_compare_what_they_note_with_a_guess(world: OperatorWorld) -> None:
    """Two datasets with the same short key and the same token note different things."""
    world.cluster.add(secret("short"))
    world.declare()
    world.settle()
    first = notes(world)
    for kind in ("Dataset", "JindoRuntime"):
        world.cluster.remove((kind, "default", "imagenet"))
    for _ in range(15):
        world.reconcile()
    world.cluster.add(secret("short"))
    world.declare()
    world.settle()
    assert len(first) == len(notes(world)) == 1
    assert first != notes(world)


def most_pods_away(world: OperatorWorld) -> int:
    """Looks until all has been replaced that is to be, and says how many workers were away at most."""
    found = []
    for _ in range(40):  # a look that waits for a master's list writes nothing
        world.look_only()
        found.append(sum(("Pod", "default", name) not in world.cluster.objects for name in WORKERS))
        world.cluster.turn()
    return max(found)


WORKERS = tuple(f"imagenet-worker-{number}" for number in range(4))


@pytest.mark.parametrize("is_new", [False, True], ids=["the same operator", "one that was installed anew"])
def test_workers_are_replaced_one_by_one_by_a_master_that_does_not_know_them_yet(
    world: OperatorWorld, is_new: bool
) -> None:
    world.declare()
    world.settle()
    world.use("train", "node-1")
    world.settle()
    running = readers_of_keys(world)
    world.masters.learns = 3
    change_keys(world)
    if is_new:
        world.restart(b"another key")
    assert most_pods_away(world) == 1
    assert not readers_of_keys(world) & running, "all in the end"


def test_an_unknown_note_is_followed_by_a_new_pod_one_by_one(world: OperatorWorld) -> None:
    """Operator and Secret are both gone: nobody can tell which token those have that run."""
    world.declare()
    world.settle()
    running = uids(world)
    delete(world)
    world.restart(b"another key")
    assert most_pods_away(world) == 1
    assert not uids(world) & running
    assert len(notes(world)) == 1
    assert "TokenLost" in reasons(world)


def declare_reference(world: OperatorWorld) -> tuple[str, str, str]:
    """Where the token of the reference is, which a pod uses."""
    world.declare()
    world.declare(PART)
    world.settle()
    world.use("train", "node-1", claim="part")
    world.settle()
    return ("Secret", "default", "part-headrace-token")


def test_a_reference_reads_with_the_token_of_its_home(world: OperatorWorld) -> None:
    own = declare_reference(world)
    lent = {"reader": world.cluster.objects[TOKEN]["data"]["reader"]}
    assert world.cluster.objects[own]["data"] == lent
    running = uids(world)
    world.cluster.remove(own)
    world.settle()
    assert world.cluster.objects[own]["data"] == lent
    assert uids(world) == running


def test_a_reference_gives_back_the_whole_token_that_an_earlier_version_lent_it(world: OperatorWorld) -> None:
    own = declare_reference(world)
    world.cluster._store(own, {**world.cluster.objects[own], "data": world.cluster.objects[TOKEN]["data"]})
    world.settle()
    assert "token" not in world.cluster.objects[own]["data"]


def tokens_of(world: OperatorWorld) -> dict[str, str]:
    data = world.cluster.objects[TOKEN]["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


@pytest.mark.parametrize("foreign", [False, True])
def test_what_follows_from_the_token_of_an_earlier_version_is_added_and_nothing_is_disturbed(
    world: OperatorWorld, foreign: bool
) -> None:
    if foreign:
        world.cluster._store(TOKEN, secret("a token that somebody brought"))
    world.declare()
    world.settle()
    world.use("train", "node-1")
    world.settle()
    wanted, running = tokens_of(world), uids(world)
    assert wanted == {**token_data(wanted["token"]), "notes": wanted["notes"]}
    data = {"token": world.cluster.objects[TOKEN]["data"]["token"]}
    world.cluster.applied.pop(TOKEN, None)
    world.cluster._store(TOKEN, {**world.cluster.objects[TOKEN], "data": data})
    world.settle()
    assert tokens_of(world) == wanted
    assert uids(world) == running
    assert not reasons(world)


def test_each_role_gets_the_token_that_it_needs_and_no_other(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    world.use("train", "node-1")
    world.settle()
    given = {}
    for pod in world.cluster.of("Pod"):
        for volume in pod["spec"].get("volumes") or ():
            if volume["name"] == "token":
                component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
                given[component] = volume["secret"]["items"]
    assert given == {
        "master": [{"key": "token", "path": "token"}],
        "worker": [{"key": "worker", "path": "token"}],
        "mount": [{"key": "reader", "path": "token"}],
    }


@pytest.mark.parametrize(
    ("noted", "current", "out"),
    [
        ("k1.a", "k1.a", False),
        ("k1.a", "k1.b", True),
        ("k1.a", "k2.b", False),
        ("", "k1.b", False),
        ("k1.a", "", False),
        ("", "", False),
    ],
)
def test_only_a_digest_of_the_same_key_tells_that_somebody_is_locked_out(
    noted: str, current: str, out: bool
) -> None:
    assert is_locked_out(noted, current) is out

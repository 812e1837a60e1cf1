"""Whole looks on a cluster in memory: datasets come to be, go on, and go, whatever part of it is refused or lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from operator_context import SETTINGS, OperatorWorld
from planned import GPU, SEED

from headrace.operator.settings import Image

DATASET, RUNTIME = ("Dataset", "default", "imagenet"), ("JindoRuntime", "default", "imagenet")


def condition(world: OperatorWorld, kind: str) -> dict[str, Any]:
    """What the dataset says of one thing."""
    found = world.get("Dataset", "imagenet")["status"]["conditions"]
    return next(each for each in found if each["type"] == kind)


def replicas(number: int) -> str:
    """The seed with other replicas."""
    return SEED.replace("replicas: 4", f"replicas: {number}")


def test_a_dataset_comes_to_be_and_planning_what_was_applied_changes_nothing(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    assert world.get("Dataset", "imagenet")["status"]["phase"] == "Bound"
    workers = {f"imagenet-worker-{number}" for number in range(4)}
    assert workers | {"imagenet-master-0"} <= set(world.pods())
    assert len({world.pods()[name] for name in workers}) == 4
    assert world.get("PersistentVolumeClaim", "imagenet")
    before = len(world.cluster.writes)
    world.reconcile()
    assert world.cluster.writes[before:] == []


def test_a_status_that_was_said_wakes_nobody(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    key = DATASET
    content = world.cluster.objects[key]
    world.cluster._store(key, {**content, "status": {**content["status"], "fileNum": "77"}})
    assert world.sync() == set()
    world.cluster._store(key, {**content, "spec": {**content["spec"], "placement": "Shared"}})
    assert world.sync() == {("default", "imagenet")}


def test_fewer_workers_take_the_last_ones_away(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    world.declare(replicas(2))
    for _ in range(3):
        world.reconcile()
    # Without a master that tells of it, nobody hands over: they are told to, and stay.
    assert world.get("StatefulSet", "imagenet-worker")["spec"]["replicas"] == 4


def test_a_lost_node_holds_neither_its_worker_nor_the_end_of_the_dataset(world: OperatorWorld) -> None:
    world.declare(replicas(2))
    world.settle()
    lost = world.pods()["imagenet-worker-1"]
    world.cluster.add_node(lost, GPU, ready=False)
    world.reconcile()
    for key in (DATASET, RUNTIME):
        world.cluster.remove(key)
    for _ in range(12):
        world.reconcile()
    assert not [name for name in world.pods() if name.startswith("imagenet")]
    forced = [each for each in world.cluster.writes if each[0] == "delete(0)" and "imagenet" in each[2]]
    assert forced
    kept = [
        each
        for each in world.cluster.writes
        if each[0] == "delete(None)" and each[1] == "Pod" and "worker-0" in each[2]
    ]
    assert kept == []


def test_a_worker_waits_for_its_node_as_long_as_kubernetes_lets_its_pod(world: OperatorWorld) -> None:
    world.declare(replicas(2))
    world.settle()
    before = world.pods()
    lost = before["imagenet-worker-1"]
    world.cluster.add_node(lost, GPU, ready=False)
    for _ in range(4):
        world.reconcile()
    assert world.pods() == before
    degraded = condition(world, "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "NodesNotReady")
    assert lost in degraded["message"]

    world.cluster.add_node(lost, GPU)
    world.settle()
    assert world.pods() == before
    assert condition(world, "Degraded")["status"] == "False"


def test_what_was_evicted_from_a_lost_node_goes_on_elsewhere(world: OperatorWorld) -> None:
    world.declare(replicas(2))
    world.settle()
    for name in ("imagenet-worker-1", "imagenet-master-0"):
        lost = world.pods()[name]
        world.cluster.add_node(lost, GPU, ready=False)
        world.cluster.evict(lost)
        world.settle()
        assert world.pods()[name] not in {"", lost}
        world.cluster.add_node(lost, GPU)
        world.settle()
    assert condition(world, "Degraded")["status"] == "False"


def test_a_master_that_was_told_its_nodes_goes_to_another_of_them(world: OperatorWorld) -> None:
    for number in (2, 3):
        world.cluster.add_node(f"node-{number}-fast", {"disk": "fast"})
    world.declare(replicas(2) + "  master: {nodeSelector: {disk: fast}}\n")
    world.settle()
    assert world.pods()["imagenet-master-0"] == "node-2-fast"
    world.cluster.add_node("node-2-fast", {"disk": "fast"}, ready=False)
    world.reconcile()
    assert world.pods()["imagenet-master-0"] == "node-2-fast"
    world.cluster.evict("node-2-fast")
    world.settle()
    assert world.pods()["imagenet-master-0"] == "node-3-fast"


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_master_leaves_the_node_of_the_backup_that_it_began_from_when_that_is_lost(
    world: OperatorWorld, is_seen: bool
) -> None:
    place = "local:///var/lib/headrace/backups/default/daily"
    backup = f"spec:\n  dataRestoreLocation: {{path: '{place}', nodeName: node-3}}\n  mounts:"
    world.declare(replicas(2).replace("spec:\n  mounts:", backup, 1))
    world.settle()
    assert world.pods()["imagenet-master-0"] == "node-3"
    world.cluster.add_node("node-3", GPU, ready=False)
    if is_seen:
        world.reconcile()
        assert world.pods()["imagenet-master-0"] == "node-3"
    world.cluster.evict("node-3")
    world.settle()
    elsewhere = world.pods()["imagenet-master-0"]
    assert elsewhere not in {"", "node-3"}
    world.cluster.add_node("node-3", GPU)
    world.settle()
    assert world.pods()["imagenet-master-0"] == elsewhere
    assert condition(world, "Degraded")["status"] == "False"


def test_a_worker_without_another_node_is_back_when_its_node_is(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    before = world.pods()
    lost = before["imagenet-worker-2"]
    world.cluster.add_node(lost, GPU, ready=False)
    world.cluster.evict(lost)
    world.settle()
    assert lost in condition(world, "Degraded")["message"]
    world.cluster.add_node(lost, GPU)
    world.settle()
    workers = {name: node for name, node in world.pods().items() if "-worker-" in name}
    assert sorted(workers.values()) == sorted(node for name, node in before.items() if "-worker-" in name)
    assert condition(world, "Degraded")["status"] == "False"


def driver(node: str, namespace: str = "headrace-system") -> dict[str, Any]:
    """The pod of the chart's driver on a node."""
    labels = {"app.kubernetes.io/name": "headrace", "app.kubernetes.io/component": "csi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"headrace-csi-{node}", "namespace": namespace, "labels": labels},
        "spec": {"nodeName": node},
        "status": {},
    }


def test_a_used_mount_gets_another_image_where_the_driver_is_up(world: OperatorWorld) -> None:
    world.declare()
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "imagenet"}}
    for node in ("node-1", "node-2"):
        spec = {"nodeName": node, "volumes": [claim]}
        metadata = {"name": f"train-{node}", "labels": {}}
        world.cluster.add(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}
        )
    world.settle()
    world.cluster.add(driver("node-1"))
    world.cluster.add(driver("node-2", namespace="default"))  # somebody's own
    world.backend.settings = replace(SETTINGS, engine=Image("headrace/engine:2"))
    world.settle()
    images = {
        pod["spec"]["nodeName"]: pod["spec"]["containers"][0]["image"]
        for pod in world.cluster.of("Pod")
        if pod["metadata"]["labels"].get("app.kubernetes.io/component") == "mount"
    }
    assert images == {"node-1": "headrace/engine:2", "node-2": "headrace/engine:1"} | dict.fromkeys(
        ("node-3", "node-4"), "headrace/engine:2"
    )


def test_a_dataset_goes_with_everything_that_was_made_for_it(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    for key in (DATASET, RUNTIME):
        world.cluster.remove(key)
    for _ in range(12):
        world.reconcile()
    left = {kind for kind, *_ in world.cluster.objects} - {"Node", "Secret", "Event"}
    assert left == set()
    assert [name for kind, _, name in world.cluster.objects if kind == "Secret"] == ["mysecret"]
    assert world.role_states == type(world.role_states)()


def test_the_nodes_are_swept_before_the_last_word(world: OperatorWorld) -> None:
    world.declare(replicas(1))
    world.settle()
    used = world.pods()["imagenet-worker-0"]
    for key in (DATASET, RUNTIME):
        world.cluster.remove(key)
    swept: set[str] = set()
    for _ in range(12):
        world.reconcile()
        sweepers = [
            pod for pod in world.cluster.of("Pod") if pod["metadata"]["namespace"] == "headrace-system"
        ]
        if sweepers:
            assert DATASET in world.cluster.objects
            swept |= {pod["spec"]["nodeName"] for pod in sweepers}
    assert used in swept
    assert DATASET not in world.cluster.objects


def test_a_node_that_cannot_be_swept_is_named(world: OperatorWorld) -> None:
    world.declare(replicas(1))
    world.settle()
    used = world.pods()["imagenet-worker-0"]
    node = world.cluster.objects["Node", "", used]
    for key in (DATASET, RUNTIME):
        world.cluster.remove(key)
    while any(name.startswith("imagenet") for name in world.pods()):
        world.reconcile()
    away = {**node["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}
    world.cluster._store(("Node", "", used), {**node, "status": away})
    for _ in range(4):
        world.reconcile()
    said = condition(world, "Ready")["message"]
    assert said.endswith(f"what it left on {used} is being taken away; on {used} the node is not ready: wait")
    world.cluster._store(("Node", "", used), node)
    for _ in range(4):
        world.reconcile()
    assert DATASET not in world.cluster.objects


@pytest.mark.parametrize(
    "refused",
    [
        ("create", "PersistentVolumeClaim"),
        ("apply", "Event"),
        ("patch", "JindoRuntime"),
        ("create", "PersistentVolume"),
    ],
)
def test_what_is_refused_stops_nothing_else(world: OperatorWorld, refused: tuple[str, str]) -> None:
    world.cluster.refused.add(refused)
    world.declare()
    for _ in range(20):
        world.reconcile()
    assert "imagenet-worker-3" in world.pods()


def test_the_end_of_a_namespace_that_takes_in_nothing_new_is_reached(world: OperatorWorld) -> None:
    world.declare(replicas(1))
    world.settle()
    kinds = ("Event", "PersistentVolumeClaim", "StatefulSet", "DaemonSet", "Secret", "Service", "ConfigMap")
    world.cluster.refused |= {(verb, kind) for verb in ("create", "apply") for kind in kinds}
    # As the controller of namespaces does: everything is asked to go, in any order.
    for key in [key for key in world.cluster.objects if key[1] == "default"]:
        if key in world.cluster.objects:
            world.cluster.remove(key)
    nodes: set[str] = set()
    for _ in range(15):
        world.reconcile()
        nodes |= {
            pod["spec"]["nodeName"]
            for pod in world.cluster.of("Pod")
            if pod["metadata"]["namespace"] == "headrace-system"
        }
    assert [key for key in world.cluster.objects if key[1] == "default" and key[0] != "Event"] == []
    assert nodes, "what it left on nodes was taken away"


def test_an_operation_that_makes_no_sense_stops_nothing_else(world: OperatorWorld) -> None:
    operation = {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "DataLoad",
        "metadata": {"name": "odd", "namespace": "default"},
        "spec": {"dataset": {"name": "imagenet", "namespace": "default"}, "target": "everything"},
    }
    world.declare(SEED + "---\n" + yaml.safe_dump(operation))
    for _ in range(10):
        world.reconcile()
    assert "imagenet-worker-3" in world.pods()
    told = [each for each in world.cluster.of("Event") if each["involvedObject"]["name"] == "odd"]
    assert [each["reason"] for each in told] == ["Refused"]
    # One that runs after it is sound itself, and says which one is not.
    after = {"dataset": {"name": "imagenet"}, "runAfter": {"kind": "DataLoad", "name": "odd"}}
    world.declare(
        yaml.safe_dump({**operation, "metadata": {"name": "after", "namespace": "default"}, "spec": after})
    )
    world.settle()
    (said,) = world.get("DataLoad", "after")["status"]["conditions"]
    assert (said["type"], said["reason"]) == ("Waiting", "PredecessorRefused")
    assert "DataLoad default/odd" in said["message"]


def test_a_load_that_names_another_namespace_says_so_in_its_status_and_begins_once_it_is_corrected(
    world: OperatorWorld,
) -> None:
    load: dict[str, Any] = {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "DataLoad",
        "metadata": {"name": "odd", "namespace": "default"},
        "spec": {"dataset": {"name": "imagenet", "namespace": "elsewhere"}},
    }
    world.declare(SEED + "---\n" + yaml.safe_dump(load))
    world.settle()
    assert world.get("Dataset", "imagenet")["status"]["phase"] == "Bound"
    status = world.get("DataLoad", "odd")["status"]
    (said,) = status["conditions"]
    assert (status["phase"], said["type"], said["status"], said["reason"]) == (
        "Failed",
        "Failed",
        "True",
        "Refused",
    )
    assert "'elsewhere' is not this object's namespace (default)" in said["message"]
    world.declare(yaml.safe_dump({**load, "spec": {"dataset": {"name": "imagenet"}}, "status": status}))
    world.settle()
    # It has begun: that no master answers here is another fault.
    assert "Refused" not in str(world.get("DataLoad", "odd")["status"])


def test_a_dataset_that_makes_no_sense_any_more_says_so_and_what_runs_goes_on(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    pods = world.pods()
    content = world.cluster.objects[DATASET]
    odd = {**content["spec"], "accessModes": ["ReadOnlyMany", "ReadOnlyMany"]}
    world.cluster._store(DATASET, {**content, "spec": odd})
    world.settle()
    degraded = condition(world, "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "Refused")
    assert "spec.accessModes: names a mode twice" in degraded["message"]
    assert world.pods() == pods
    world.cluster._store(DATASET, {**world.cluster.objects[DATASET], "spec": content["spec"]})
    world.settle()
    assert condition(world, "Degraded")["status"] == "False"


def test_the_claim_of_a_dataset_that_is_being_deleted_takes_no_new_pod_and_stays_for_those_that_use_it(
    world: OperatorWorld,
) -> None:
    world.declare(replicas(1))
    world.settle()
    claim = ("PersistentVolumeClaim", "default", "imagenet")
    assert "deletionTimestamp" not in world.cluster.objects[claim]["metadata"]
    world.use("train", "node-1")
    world.settle()
    world.cluster.remove(DATASET)
    world.settle()
    # Kubernetes lets no pod begin with a claim that is to go, and keeps it for those that have it.
    assert world.cluster.objects[claim]["metadata"]["deletionTimestamp"]
    assert ("PersistentVolume", "", "imagenet") in world.cluster.objects
    status = world.get("Dataset", "imagenet")["status"]
    assert (status["phase"], condition(world, "Terminating")["reason"]) == ("Terminating", "VolumeInUse")
    assert "Degraded" not in {each["type"] for each in status["conditions"] if each["status"] == "True"}
    pods = world.pods()
    world.settle()
    assert world.pods() == pods
    world.leave("train")
    for _ in range(25):
        world.reconcile()
    assert not {DATASET, claim, ("PersistentVolume", "", "imagenet")} & set(world.cluster.objects)


VIEW = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {name: NAME, namespace: default}
spec: {mounts: [{mountPoint: "dataset://default/imagenet"}]}
"""


def test_a_dataset_that_is_being_deleted_is_kept_by_those_that_show_it_and_not_by_who_comes_then(
    world: OperatorWorld,
) -> None:
    world.declare(replicas(1))
    world.settle()
    world.declare(VIEW.replace("NAME", "early"))
    world.settle()
    assert world.get("Dataset", "early")["status"]["phase"] == "Bound"
    world.cluster.remove(DATASET)
    world.declare(VIEW.replace("NAME", "late"))
    world.settle()
    assert "default/early" in condition(world, "Terminating")["message"]
    assert "default/late" not in condition(world, "Terminating")["message"]
    assert world.get("Dataset", "early")["status"]["phase"] == "Bound"
    late = world.get("Dataset", "late")["status"]
    assert "default/imagenet, which is being deleted" in str(late["conditions"])
    world.cluster.remove(("Dataset", "default", "early"))
    for _ in range(25):
        world.reconcile()
    assert DATASET not in world.cluster.objects
    assert "DatasetReferenceMissing" in str(world.get("Dataset", "late")["status"]["conditions"])


@pytest.mark.parametrize(
    ("words", "reason", "told_of"),
    [
        (
            'failed to create subPath directory for volumeMount "data" of container "main"',
            "SubPathMissing",
            "a subPath that is not in dataset default/imagenet",
        ),
        (
            'failed to prepare subPath for volumeMount "data" of container "main"',
            "SubPathRefused",
            "a subPath of dataset default/imagenet that kubelet does not open",
        ),
    ],
)
def test_a_pod_that_waits_for_a_sub_path_is_told_why(
    world: OperatorWorld, words: str, reason: str, told_of: str
) -> None:
    world.declare(replicas(1))
    world.settle()
    for name in ("fine", "odd"):
        world.use(name, "node-1")
    world.settle()
    assert not [each for each in world.cluster.of("Event") if each["involvedObject"]["kind"] == "Pod"]
    pod = world.cluster.objects["Pod", "default", "odd"]
    for message in (words.replace('"data"', '"of another claim"'), words):
        assert not [each for each in world.cluster.of("Event") if each["involvedObject"]["kind"] == "Pod"]
        waiting = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": message}}}
        world.cluster._store(("Pod", "default", "odd"), {**pod, "status": {"containerStatuses": [waiting]}})
        for _ in range(3):
            world.look_only()
    (told,) = [each for each in world.cluster.of("Event") if each["involvedObject"]["kind"] == "Pod"]
    about = told["involvedObject"]
    assert (about["apiVersion"], about["name"], about["namespace"]) == ("v1", "odd", "default")
    assert (told["reason"], told["count"]) == (reason, 1)
    assert told_of in told["message"]


def test_the_same_event_is_not_written_at_each_look(world: OperatorWorld) -> None:
    world.cluster.refused.add(("apply", "StatefulSet"))
    world.declare()
    for _ in range(10):
        world.reconcile()
    told = [each for each in world.cluster.writes if each[1] == "Event"]
    assert len(told) == len(set(told))
    reasons = {each["reason"] for each in world.cluster.of("Event")}
    assert "StepRefused" in reasons


def test_a_deleted_claim_is_made_anew_and_its_volume_is_free_for_it(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    volume = ("PersistentVolume", "", "imagenet")
    spec = world.cluster.objects[volume]["spec"]
    bound = {
        **world.cluster.objects[volume],
        "spec": {**spec, "claimRef": {**spec["claimRef"], "uid": "old"}},
    }
    world.cluster._store(volume, bound)
    world.cluster.remove(("PersistentVolumeClaim", "default", "imagenet"))
    world.settle()
    assert world.get("PersistentVolumeClaim", "imagenet")
    assert "uid" not in world.cluster.objects[volume]["spec"]["claimRef"]


def test_a_token_that_is_gone_is_made_anew_and_steps_go_on(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    world.cluster.remove(("Secret", "default", "imagenet-headrace-token"))
    world.cluster.remove(("Pod", "default", "imagenet-worker-3"))
    world.declare(replicas(2))
    for _ in range(4):
        world.reconcile()
    assert world.get("Dataset", "imagenet")["status"]["phase"] == "Bound"


def test_nothing_starts_where_somebody_still_cleans(world: OperatorWorld) -> None:
    world.declare(replicas(1))
    world.settle()
    world.cluster.remove(RUNTIME)
    for _ in range(15):
        world.reconcile()
        sweepers = [
            pod for pod in world.cluster.of("Pod") if pod["metadata"]["namespace"] == "headrace-system"
        ]
        if sweepers:
            break
    assert sweepers
    runtime = replicas(1).partition("---")[2]
    world.cluster.objects.pop(RUNTIME, None)
    world.declare(runtime)
    world.sync()
    world.reconcile()
    assert not [name for name in world.pods() if "worker" in name]
    world.settle()
    assert "imagenet-worker-0" in world.pods()

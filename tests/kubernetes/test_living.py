"""What a Dataset does while it is changed, when others have its names, and when its operator dies in the middle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from charts import NAMESPACE, Content, Release
from datasets_on_kubernetes import (
    Bucket,
    Reading,
    as_list,
    namespace_of,
    parts_of,
    reader,
    runtime,
    served_bucket,
)

from headrace.plan.volume import CAPACITY_ANNOTATION
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl

pytestmark = [pytest.mark.root, pytest.mark.slow]

READ, ADDED = "train", "added"
# All datasets of this module are Shared, so that two nodes are enough for two of them at once.
NODE = "node-1"
CLAIM = ("persistentvolumeclaim", "imagenet")


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with served_bucket(cluster.host_address, tmp_path_factory.mktemp("s3")) as made:
        for below in (READ, ADDED):
            made.fill(8, below=below)
        yield made


@pytest.fixture(scope="module")
def reading(release: Release, kubernetes: Kubectl, bucket: Bucket) -> Iterator[Reading]:
    """A reader of one folder of the bucket, which is the dataset's only mount at first."""
    with namespace_of(kubernetes, "living") as name:
        dataset = bucket.dataset(placement="Shared")
        dataset["spec"]["mounts"] = [_mount_of(bucket, READ)]
        kubernetes.apply(bucket.secret(), dataset, runtime(), namespace=name)
        _await_bound(kubernetes, name)
        kubernetes.apply(reader("reader", NODE, below=READ), namespace=name)
        found = Reading(kubernetes, name, ("reader",), bucket.digest(READ))
        found.begin()
        yield found
        kubernetes("-n", name, "delete", "pods", *found.pods, "--ignore-not-found", "--grace-period=1")
        kubernetes("-n", name, "delete", "dataset", "imagenet", "--timeout=300s")


def _mount_of(bucket: Bucket, folder: str) -> Content:
    (whole,) = bucket.dataset()["spec"]["mounts"]
    return {
        **whole,
        "mountPoint": f"s3://{bucket.name}/{folder}",
        "name": folder,
        "path": f"/{folder}",
    }


def _await_bound(kubernetes: Kubectl, namespace: str) -> None:
    bound = ("wait", "dataset/imagenet", "--for=jsonpath={.status.phase}=Bound", "--timeout=300s")
    kubernetes("-n", namespace, *bound, timeout_s=330)


def _conditions(kubernetes: Kubectl, namespace: str) -> str:
    """All that the dataset says of itself."""
    return json.dumps(kubernetes.get("-n", namespace, "dataset", "imagenet").get("status", {}))


def _uid(kubernetes: Kubectl, *words: str) -> str:
    return str(kubernetes.get(*words)["metadata"]["uid"])


# Mounts


def test_mounts_are_added_and_removed_under_a_reader(
    kubernetes: Kubectl, reading: Reading, bucket: Bucket
) -> None:
    def names() -> list[str]:
        return sorted(kubernetes("-n", reading.namespace, "exec", *reading.pods, "--", "ls", "/data").split())

    mounts = {pod["metadata"]["uid"] for pod in parts_of(kubernetes, reading.namespace, "mount")}
    assert names() == [READ]
    _patch_mounts(kubernetes, reading, [_mount_of(bucket, READ), _mount_of(bucket, ADDED)])
    kubernetes.wait(lambda: names() == [ADDED, READ], "the other mount in the reader's volume")
    reading.go_on()
    # Another reader sees every byte of what came.
    kubernetes.apply(reader("second", NODE, below=ADDED), namespace=reading.namespace)
    Reading(kubernetes, reading.namespace, ("second",), bucket.digest(ADDED)).begin()
    kubernetes("-n", reading.namespace, "delete", "pod", "second", "--grace-period=1")
    _patch_mounts(kubernetes, reading, [_mount_of(bucket, READ)])
    kubernetes.wait(lambda: names() == [READ], "the other mount to be gone")
    reading.go_on()
    _await_bound(kubernetes, reading.namespace)
    assert {pod["metadata"]["uid"] for pod in parts_of(kubernetes, reading.namespace, "mount")} == mounts


def _patch_mounts(kubernetes: Kubectl, reading: Reading, mounts: list[Content]) -> None:
    patch = json.dumps({"spec": {"mounts": mounts}})
    kubernetes("-n", reading.namespace, "patch", "dataset", "imagenet", "--type=merge", "-p", patch)


# Volumes


def test_a_claim_of_another_size_is_made_anew_once_nobody_uses_it(
    kubernetes: Kubectl, reading: Reading
) -> None:
    claim = ("-n", reading.namespace, *CLAIM)
    before = _uid(kubernetes, *claim)
    words = ("annotate", "dataset", "imagenet", f"{CAPACITY_ANNOTATION}=200Gi", "--overwrite")
    kubernetes("-n", reading.namespace, *words)
    kubernetes.wait(
        lambda: "VolumeOutdated" in _conditions(kubernetes, reading.namespace), "a word about the size"
    )
    reading.go_on()
    assert _uid(kubernetes, *claim) == before
    kubernetes("-n", reading.namespace, "delete", "pod", *reading.pods, "--grace-period=1")

    def is_made_anew() -> bool:
        found = kubernetes.get(*claim)
        is_other = found["metadata"]["uid"] != before and found["status"].get("phase") == "Bound"
        return is_other and found["status"]["capacity"]["storage"] == "200Gi"

    kubernetes.wait(is_made_anew, "a claim of the other size that is bound")
    kubernetes.apply(reader(reading.pods[0], NODE, below=READ), namespace=reading.namespace)
    reading.begin()


def test_a_claim_and_a_volume_of_somebody_else_are_never_taken_over(
    release: Release, kubernetes: Kubectl, namespace: str, bucket: Bucket
) -> None:
    volume = f"imagenet.{namespace}"
    theirs = _foreign_pair(namespace, volume)
    kubernetes("create", "-f", "-", stdin=as_list(*theirs))
    claim = ("-n", namespace, *CLAIM)
    kubernetes.wait(lambda: kubernetes.get(*claim)["status"].get("phase") == "Bound", "their claim, bound")
    before = [_state(kubernetes, *claim), _state(kubernetes, "persistentvolume", volume)]
    kubernetes.apply(bucket.secret(), bucket.dataset(placement="Shared"), runtime(), namespace=namespace)
    kubernetes.wait(
        lambda: "VolumeTaken" in _conditions(kubernetes, namespace), "a word about whose volume it is"
    )
    kubernetes.wait(lambda: len(parts_of(kubernetes, namespace, "worker")) == 2, "workers all the same")
    assert [_state(kubernetes, *claim), _state(kubernetes, "persistentvolume", volume)] == before
    kubernetes("-n", namespace, "delete", "dataset", "imagenet", "--timeout=300s")
    assert [_state(kubernetes, *claim), _state(kubernetes, "persistentvolume", volume)] == before
    kubernetes("-n", namespace, "delete", *CLAIM)
    kubernetes("delete", "persistentvolume", volume)


def _foreign_pair(namespace: str, volume: str) -> list[Content]:
    """A folder of the nodes, as an administrator gives it to somebody."""
    size = {"storage": "1Gi"}
    modes = ["ReadWriteMany"]
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": size,
                "accessModes": modes,
                "hostPath": {"path": "/srv"},
                "claimRef": {"name": "imagenet", "namespace": namespace},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "imagenet", "namespace": namespace},
            "spec": {
                "accessModes": modes,
                "resources": {"requests": size},
                "storageClassName": "",
                "volumeName": volume,
            },
        },
    ]


def _state(kubernetes: Kubectl, *words: str) -> dict[str, Any]:
    """Who it is, what it says, and whether somebody asked it to go."""
    found = kubernetes.get(*words)
    kept = ("uid", "labels", "ownerReferences", "finalizers", "deletionTimestamp")
    return {"spec": found["spec"], **{word: found["metadata"].get(word) for word in kept}}


# Deletion


def test_a_dataset_that_makes_no_sense_can_be_deleted(
    release: Release, kubernetes: Kubectl, namespace: str, bucket: Bucket
) -> None:
    """Once as it was created, and once after it was served."""
    kubernetes.apply(bucket.secret(), namespace=namespace)
    for is_served in (False, True):
        dataset = bucket.dataset(placement="Shared")
        if not is_served:
            dataset["spec"]["mounts"][0]["mountPoint"] = "s3:// no bucket"
        kubernetes.apply(dataset, runtime(), namespace=namespace)
        if is_served:
            _await_bound(kubernetes, namespace)
            patch = '{"spec": {"accessModes": ["ReadWriteMany", "ReadWriteMany"]}}'
            kubernetes("-n", namespace, "patch", "dataset", "imagenet", "--type=merge", "-p", patch)
        kubernetes.wait(lambda: _is_told_of(kubernetes, namespace), "an event that says what is wrong")
        kubernetes("-n", namespace, "delete", "dataset,alluxioruntime", "imagenet", "--timeout=300s")
        kubernetes.wait(lambda: not _left(kubernetes, namespace), "everything of it to be gone")
        kubernetes("-n", namespace, "delete", "events", "--all")


def _is_told_of(kubernetes: Kubectl, namespace: str) -> bool:
    events = kubernetes.get("-n", namespace, "events")["items"]
    about = [each for each in events if each["involvedObject"]["kind"] == "Dataset"]
    return any(each["type"] == "Warning" and "spec" in each["message"] for each in about)


def _left(kubernetes: Kubectl, namespace: str) -> list[str]:
    kinds = "datasets,alluxioruntimes,statefulsets,daemonsets,services,persistentvolumeclaims,pods"
    volumes = kubernetes("get", "persistentvolumes", "-o", "name").split()
    here = kubernetes("-n", namespace, "get", kinds, "-o", "name").split()
    return [*here, *(each for each in volumes if each.endswith(f".{namespace}"))]


# The operator


def test_an_operator_that_is_killed_while_a_dataset_comes_and_while_it_goes_loses_nothing(
    release: Release, kubernetes: Kubectl, namespace: str, bucket: Bucket
) -> None:
    """Killed as soon as it has done each step, seen from outside."""

    def exists(kind: str, name: str) -> bool:
        return f"/{name}" in kubernetes("-n", namespace, "get", kind, "-o", "name")

    kubernetes.apply(bucket.secret(), bucket.dataset(placement="Shared"), runtime(), namespace=namespace)
    for kind, name in (
        ("secrets", "imagenet-headrace-token"),
        ("statefulsets", "imagenet-master"),
        ("statefulsets", "imagenet-worker"),
        ("persistentvolumeclaims", "imagenet"),
    ):
        kubernetes.wait(lambda: exists(kind, name), f"{name} of the {kind}")  # noqa: B023
        _kill_operators(kubernetes)
    _await_bound(kubernetes, namespace)
    kubernetes.apply(reader("reader", NODE), namespace=namespace)
    Reading(kubernetes, namespace, ("reader",), bucket.digest()).begin()
    kubernetes("-n", namespace, "delete", "pod", "reader", "--grace-period=1")
    kubernetes("-n", namespace, "delete", "dataset", "imagenet", "--wait=false")
    for kind, name in (
        ("persistentvolumeclaims", "imagenet"),
        ("statefulsets", "imagenet-worker"),
        ("statefulsets", "imagenet-master"),
    ):
        _kill_operators(kubernetes)
        kubernetes.wait(lambda: not exists(kind, name), f"the end of {name} of the {kind}")  # noqa: B023
    kubernetes.wait(lambda: not _left(kubernetes, namespace), "everything to be gone")
    assert kubernetes("-n", namespace, "get", "secrets", "-o", "name").split() == ["secret/keys"]


def _kill_operators(kubernetes: Kubectl) -> None:
    """All replicas, without a word; others take their place."""
    selector = ("-l", "app.kubernetes.io/component=operator")
    kubernetes("-n", NAMESPACE, "delete", "pods", *selector, "--grace-period=0", "--force")

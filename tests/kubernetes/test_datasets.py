"""Datasets on a real cluster, with the chart's own rights: read by pods on two nodes, whatever dies meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from charts import NAMESPACE, Release
from datasets_on_kubernetes import (
    Bucket,
    Reading,
    as_list,
    await_ready,
    namespace_of,
    parts_of,
    reader,
    reading_of,
    runtime,
    served_bucket,
)

from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl, KubectlError
from headrace.testing.s3_client import Credentials

pytestmark = [pytest.mark.root, pytest.mark.slow]

NODES = ("node-1", "node-2")


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with served_bucket(cluster.host_address, tmp_path_factory.mktemp("s3")) as made:
        made.fill()
        yield made


@pytest.fixture(scope="module")
def reading(release: Release, kubernetes: Kubectl, bucket: Bucket) -> Iterator[Reading]:
    """A reader on each node of one dataset, which the tests of this module share and leave as they found it."""
    with namespace_of(kubernetes, "shared") as name, reading_of(kubernetes, name, bucket, NODES) as found:
        yield found


def test_pods_on_two_nodes_read_what_the_bucket_holds_and_the_storage_gave_each_byte_once(
    kubernetes: Kubectl, reading: Reading, bucket: Bucket
) -> None:
    status = kubernetes.get("-n", reading.namespace, "dataset", "imagenet")["status"]
    assert status["fileNum"] == "24"
    kubernetes.wait(
        lambda: (
            kubernetes.get("-n", reading.namespace, "dataset", "imagenet")["status"]["cacheStates"][
                "cachedPercentage"
            ]
            == "100.0%"
        ),
        "everything to be cached",
    )


@pytest.mark.parametrize("component", [pytest.param("mount", marks=pytest.mark.short), "worker", "master"])
def test_readers_go_on_when_the_pods_of_a_role_are_killed(
    kubernetes: Kubectl, reading: Reading, component: str
) -> None:
    for pod in parts_of(kubernetes, reading.namespace, component):
        words = ("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
        kubernetes("-n", reading.namespace, *words)
    reading.go_on()
    await_ready(kubernetes, reading.namespace, component)
    reading.go_on()


@pytest.mark.parametrize("component", ["csi", "operator"])
def test_readers_go_on_when_the_pods_of_the_chart_are_killed(
    kubernetes: Kubectl, reading: Reading, component: str
) -> None:
    selector = ("-l", f"app.kubernetes.io/component={component}")
    kubernetes("-n", NAMESPACE, "delete", "pods", *selector, "--grace-period=0", "--force")
    reading.go_on()
    await_ready(kubernetes, NAMESPACE, component)
    reading.go_on()


def test_processes_that_are_killed_within_their_pods_come_back_under_readers(
    kubernetes: Kubectl, reading: Reading, cluster: Cluster
) -> None:
    for node in cluster.nodes:
        node.run("sh", "-c", "kill -9 $(pgrep -f 'headrace[.]roles|bin/headrace (mount|worker)' ) || true")
    reading.go_on()
    for component in ("mount", "worker"):
        await_ready(kubernetes, reading.namespace, component)
    reading.go_on()


def test_workers_come_and_go_under_readers(kubernetes: Kubectl, reading: Reading) -> None:
    for replicas in (1, 2):
        kubernetes("-n", reading.namespace, "scale", "alluxioruntime", "imagenet", f"--replicas={replicas}")
        kubernetes.wait(
            lambda: len(parts_of(kubernetes, reading.namespace, "worker")) == replicas,  # noqa: B023
            f"{replicas} workers",
        )
        reading.go_on()
    await_ready(kubernetes, reading.namespace, "worker")


def test_a_new_secret_takes_effect_under_readers(
    kubernetes: Kubectl, reading: Reading, bucket: Bucket
) -> None:
    versions = _versions(kubernetes, reading.namespace)
    # They stay: the dataset is the other tests', too.
    bucket.server.give_keys(Credentials("AKIANEWKEYS", "a-new-secret-of-sixteen"))
    kubernetes.apply(bucket.secret(), namespace=reading.namespace)
    kubernetes.wait(
        lambda: not versions & _versions(kubernetes, reading.namespace), "workers with the new keys"
    )
    await_ready(kubernetes, reading.namespace, "worker")
    reading.go_on()
    phase = kubernetes.get("-n", reading.namespace, "dataset", "imagenet")["status"]["phase"]
    assert phase == "Bound"


def test_a_missing_key_is_told_with_what_to_do(
    release: Release, kubernetes: Kubectl, namespace: str, bucket: Bucket
) -> None:
    kubernetes("-n", namespace, "create", "-f", "-", stdin=as_list(bucket.dataset(), runtime()))

    def waiting() -> list[str]:
        status = kubernetes.get("-n", namespace, "dataset", "imagenet").get("status", {})
        return [each["message"] for each in status.get("conditions", []) if each["reason"] == "SecretMissing"]

    kubernetes.wait(lambda: any("keys" in message for message in waiting()), "a word about the Secret")
    kubernetes.apply(bucket.secret(), namespace=namespace)
    bound = ("wait", "dataset/imagenet", "--for=jsonpath={.status.phase}=Bound", "--timeout=300s")
    kubernetes("-n", namespace, *bound)
    kubernetes("-n", namespace, "delete", "dataset", "imagenet", "--timeout=300s", timeout_s=330)


def test_a_dataset_in_use_is_not_deleted_and_one_that_goes_leaves_nothing(
    release: Release, kubernetes: Kubectl, namespace: str, cluster: Cluster, bucket: Bucket
) -> None:
    with reading_of(kubernetes, namespace, bucket, NODES) as reading:
        _delete_under(kubernetes, reading)
    for node in cluster.nodes:
        assert not _files(node.run, namespace)


def _delete_under(kubernetes: Kubectl, reading: Reading) -> None:
    namespace = reading.namespace
    kubernetes("-n", namespace, "delete", "dataset", "imagenet", "--wait=false")

    def reasons() -> set[str]:
        status = kubernetes.get("-n", namespace, "dataset", "imagenet")["status"]
        return {each["reason"] for each in status["conditions"]}

    kubernetes.wait(lambda: "VolumeInUse" in reasons(), "a word about who uses it")
    assert kubernetes.get("-n", namespace, "dataset", "imagenet")["status"]["phase"] == "Terminating"
    # Its claim takes no new pod, so that those that follow each other do not keep it for ever.
    late = reader("late", NODES[0])
    kubernetes.apply(late, namespace=namespace)
    refused = 'persistentvolumeclaim "imagenet" is being deleted'
    kubernetes.wait(
        lambda: refused in _conditions_of_pod(kubernetes, namespace, "late"), "the scheduler's word"
    )
    reading.go_on()
    kubernetes("-n", namespace, "delete", "pods", *reading.pods)
    gone = ("wait", "--for=delete", "dataset/imagenet", "--timeout=300s")
    kubernetes("-n", namespace, *gone, timeout_s=330)
    kubernetes("-n", namespace, "delete", "pod", "late")
    left = "alluxioruntimes,statefulsets,daemonsets,services,persistentvolumeclaims,pods"
    kubernetes.wait(
        lambda: not kubernetes("-n", namespace, "get", left, "-o", "name"), "everything to be gone"
    )
    names = kubernetes("get", "persistentvolumes", "-o", "name")
    assert f"imagenet.{namespace}" not in names
    secrets = kubernetes("-n", namespace, "get", "secrets", "-o", "name").split()
    assert secrets == ["secret/keys"]


def _conditions_of_pod(kubernetes: Kubectl, namespace: str, name: str) -> str:
    return str(kubernetes.get("-n", namespace, "pod", name)["status"].get("conditions"))


def test_a_sub_path_that_is_not_there_is_told_on_the_pod(kubernetes: Kubectl, reading: Reading) -> None:
    odd = reader("odd", NODES[0])
    for container in odd["spec"]["containers"]:
        for mount in container["volumeMounts"]:
            mount["subPath"] = "no/such/folder"
    kubernetes.apply(odd, namespace=reading.namespace)

    def told() -> str:
        return kubernetes("-n", reading.namespace, "describe", "pod", "odd")

    kubernetes.wait(lambda: "SubPathMissing" in told(), "an event about the subPath")
    assert "failed to create subPath directory" in told()
    kubernetes("-n", reading.namespace, "delete", "pod", "odd", "--grace-period=1")


def test_a_load_is_complete_when_all_is_verified(kubernetes: Kubectl, reading: Reading) -> None:
    dataset = reading.namespace
    load = {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "DataLoad",
        "metadata": {"name": "warm"},
        "spec": {
            "dataset": {"name": "imagenet", "namespace": dataset},
            "loadMetadata": True,
            "target": [{"path": "/", "replicas": 1}],
        },
    }
    kubernetes.apply(load, namespace=dataset)
    done = ("wait", "dataload/warm", "--for=jsonpath={.status.phase}=Complete", "--timeout=300s")
    kubernetes("-n", dataset, *done)
    status = kubernetes.get("-n", dataset, "dataload", "warm")["status"]
    assert any("24 files" in each["message"] for each in status["conditions"])


def test_keys_stand_nowhere_but_in_their_secret(
    kubernetes: Kubectl, reading: Reading, bucket: Bucket
) -> None:
    kinds = "dataset,alluxioruntime,pods,statefulsets,daemonsets,configmaps,events,services"
    shown = kubernetes("-n", reading.namespace, "get", kinds, "-o", "json")
    logs = [
        kubernetes("-n", place, "logs", pod["metadata"]["name"], "--all-containers")
        for place, component in [
            (reading.namespace, "master"),
            (reading.namespace, "worker"),
            (reading.namespace, "mount"),
            (NAMESPACE, "operator"),
            (NAMESPACE, "csi"),
        ]
        for pod in parts_of(kubernetes, place, component)
    ]
    secret = bucket.server.credentials.secret_access_key
    token = json.loads(
        kubernetes("-n", reading.namespace, "get", "secret", "imagenet-headrace-token", "-o", "json")
    )["data"]["token"]
    for text in (shown, *logs):
        assert secret not in text
        assert token not in text


def _versions(kubernetes: Kubectl, namespace: str) -> set[str]:
    pods = parts_of(kubernetes, namespace, "worker")
    return {pod["metadata"]["annotations"]["headrace.io/version"] for pod in pods}


def _files(run: Callable[..., str], namespace: str) -> list[str]:
    """What lies on a node that has the namespace's name in its path."""
    try:
        places = [str(Path("/var/lib/headrace", part)) for part in ("mounts", "state")]
        return run("find", *places, "/var/lib/cache", "-path", f"*{namespace}*").split()
    except (KubectlError, RuntimeError):
        return []

"""Datasets and runtimes with every field that has an effect, on a real cluster: they serve, with pods as was asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from charts import Release
from datasets_on_kubernetes import Bucket, Reading, parts_of, reader, served_bucket
from every_field import LABEL, NOTE, VARIABLE, alluxio, dataset, jindo

from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.fixture
def bucket(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with served_bucket(cluster.host_address, tmp_path_factory.mktemp("s3")) as made:
        made.fill(count=8)
        yield made


@pytest.mark.parametrize("kind", ["alluxio", "jindo"])
def test_a_dataset_with_every_field_serves_and_its_pods_are_as_was_asked(
    release: Release, kubernetes: Kubectl, namespace: str, bucket: Bucket, kind: str
) -> None:
    runtime = {"alluxio": alluxio, "jindo": jindo}[kind]("imagenet")
    server, digest = bucket.server, bucket.digest()
    # Of those that are left out.
    (bucket.folder / "half.tmp").write_bytes(b"not wanted")
    declared = dataset("imagenet", "node-1", bucket.name, server.endpoint, server.region)
    kubernetes.apply(bucket.secret(), _keys_by_name(bucket), declared, runtime, namespace=namespace)
    bound = ("wait", "dataset/imagenet", "--for=jsonpath={.status.phase}=Bound", "--timeout=300s")
    try:
        kubernetes("-n", namespace, *bound, timeout_s=330)
        kubernetes.apply(reader("reader", "node-2"), namespace=namespace)
        reading = Reading(kubernetes, namespace, ("reader",), digest)
        reading.begin()
        for component in ("master", "worker", "mount"):
            pods = parts_of(kubernetes, namespace, component)
            assert pods
            for pod in pods:
                _check(pod, component)
        # Mounts are privileged: they take no variables and no volumes of a runtime, and it is told so.
        (runtime,) = kubernetes.get("-n", namespace, f"{kind}runtime")["items"]
        said = {each["type"]: each["message"] for each in runtime["status"]["conditions"]}
        assert "spec.fuse.env.EXAMPLE" in said["FieldsRefused"]
        (worker,) = parts_of(kubernetes, namespace, "worker")
        assert worker["spec"]["nodeName"] == "node-1"
        claim = kubernetes.get("-n", namespace, "persistentvolumeclaim", "imagenet")
        assert claim["spec"]["accessModes"] == ["ReadOnlyMany"]
        _end_reader(kubernetes, namespace)
        # OnDemand: the mount goes with its last user.
        kubernetes.wait(lambda: not parts_of(kubernetes, namespace, "mount"), "the end of the mount")
    finally:
        _end_reader(kubernetes, namespace)
        kubernetes("-n", namespace, "delete", "dataset", "imagenet", "--timeout=300s", timeout_s=330)


def _end_reader(kubernetes: Kubectl, namespace: str) -> None:
    words = ("delete", "pod", "reader", "--ignore-not-found", "--grace-period=1")
    kubernetes("-n", namespace, *words)


def _keys_by_name(bucket: Bucket) -> dict[str, Any]:
    """As a JindoRuntime's `secret` has them: each key is the name of an option."""
    keys = bucket.server.credentials
    values = {"access-key-id": keys.access_key_id, "secret-access-key": keys.secret_access_key}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys-by-name"}, "stringData": values}


def _check(pod: dict[str, Any], component: str) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    (container,) = spec["containers"]
    assert LABEL.items() <= metadata["labels"].items()
    assert NOTE.items() <= metadata["annotations"].items()
    told = {each["name"]: each.get("value") for each in container["env"]}
    assert (VARIABLE.items() <= told.items()) == (component != "mount")
    assert container["resources"]["limits"] == {"memory": "1Gi"}
    assert container["resources"]["requests"] == {"cpu": "10m", "memory": "64Mi"}
    assert {"name": "none-such"} in spec["imagePullSecrets"]
    mounted = [each for each in container["volumeMounts"] if each["mountPath"] == "/extra"]
    assert [each.get("subPath") for each in mounted] == ([] if component == "mount" else ["part"])
    if component != "mount":
        own = next(each for each in spec["tolerations"] if each.get("key") == "example")
        assert own["tolerationSeconds"] == 60
        assert container["securityContext"]["runAsUser"] == 1005

"""Runtimes whose master and workers run as another user than root: their keys, tokens and folders of the nodes."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from charts import Release
from datasets_on_kubernetes import (
    Bucket,
    Reading,
    as_list,
    bound_dataset,
    parts_of,
    reader,
    runtime,
    served_bucket,
)
from installing import ROLLED_OUT, wait_until_ready

from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl

pytestmark = [pytest.mark.root, pytest.mark.slow]

NODES = ("node-1", "node-2")
USER = 1005
RUN_AS = {"uid": USER, "gid": USER, "user": "myuser", "group": "mygroup"}
FOLDERS = ("/mnt/test1", "/mnt/test2")

# As its user, with what it finds: the digest of a file that only this user of the node may read.
_SHOW = """
import hashlib, os, sys, time
for name in ("test1", "test2"):
    with open(os.path.join("/data", name, "secret.bin"), "rb") as file:
        print(hashlib.sha256(file.read()).hexdigest(), flush=True)
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def opened(release: Release, kubernetes: Kubectl) -> Release:
    """The chart with two folders of the nodes that datasets may read."""
    release.install({"localFolders": list(FOLDERS)})
    wait_until_ready(kubernetes, *ROLLED_OUT)
    return release


@pytest.fixture
def folders(cluster: Cluster) -> Iterator[str]:
    """Shares that two nodes have, with files that one user alone may read; what they hold."""
    word, shares = "only for user 1005", cluster.folder / "shares"
    for folder in FOLDERS:
        share = shares / Path(folder).name
        share.mkdir(parents=True)
        (share / "secret.bin").write_text(f"{word} {folder}")
        for path, mode in ((share / "secret.bin", 0o600), (share, 0o700)):
            os.chown(path, USER, USER)
            path.chmod(mode)
        for name in NODES:
            cluster.node(name).run("mkdir", "-p", folder)
            # Nodes see the state folder of their cluster as it is.
            cluster.node(name).run("mount", "--bind", str(share), folder)
    yield word
    for name in NODES:
        cluster.node(name).run("umount", "--lazy", *FOLDERS)
        cluster.node(name).run("rmdir", *FOLDERS)
    shutil.rmtree(shares)


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with served_bucket(cluster.host_address, tmp_path_factory.mktemp("s3")) as made:
        made.fill(count=8)
        yield made


def _owners(cluster: Cluster, *below: str) -> set[str]:
    """Who owns what a worker has on the nodes."""
    found: set[str] = set()
    for node in cluster.nodes:
        shown = node.run("sh", "-c", f"stat -c %u {' '.join(below)} 2>/dev/null || true")
        found |= set(shown.split())
    return found


def test_a_bucket_is_read_by_workers_of_a_user_that_owns_nothing_but_its_own_folders(
    opened: Release, kubernetes: Kubectl, cluster: Cluster, bucket: Bucket, namespace: str
) -> None:
    levels = [
        {"mediumtype": "MEM", "path": "/dev/shm", "quota": "64Mi"},
        {"mediumtype": "SSD", "path": "/var/lib/cache", "quota": "1Gi"},
    ]
    made = runtime(runAs=RUN_AS, tieredstore={"levels": levels})
    with bound_dataset(kubernetes, namespace, bucket.secret(), bucket.dataset(), made):
        kubernetes.apply(reader("reader", "node-1"), namespace=namespace)
        reading = Reading(kubernetes, namespace, ("reader",), bucket.digest())
        reading.begin()
        title = f"{namespace}/imagenet"
        places = (f"/dev/shm/{title}", f"/var/lib/cache/{title}", f"/var/lib/headrace/state/{title}/worker-*")
        assert _owners(cluster, *places) == {str(USER)}
        assert _owners(cluster, f"/dev/shm/{namespace}", f"/var/lib/headrace/state/{title}") == {"0"}
        for component in ("master", "worker"):
            for pod in parts_of(kubernetes, namespace, component):
                said = kubernetes(
                    "-n", namespace, "exec", pod["metadata"]["name"], "-c", component, "--", "id", "-u"
                )
                assert said.strip() == str(USER)
        # A worker that comes again finds what is its own.
        kubernetes("-n", namespace, "delete", "pod", "imagenet-worker-0", "--grace-period=1")
        reading.go_on()
    shown = f"ls -d /dev/shm/{namespace} /var/lib/cache/{namespace} 2>/dev/null || true"
    left = {node.run("sh", "-c", shown) for node in cluster.nodes}
    assert left == {""}, "deleting the dataset takes it away"


def test_folders_of_nodes_are_read_as_their_user_from_yaml_that_fluid_has(
    opened: Release, kubernetes: Kubectl, cluster: Cluster, folders: str, namespace: str
) -> None:
    """The fields and values of Fluid's samples/ufspath/dataset.yaml."""
    selector = {"matchExpressions": [{"key": "nonroot", "operator": "In", "values": ["true"]}]}
    dataset = _object(
        "Dataset", mounts=[{"mountPoint": f"local://{each}", "name": each[5:]} for each in FOLDERS]
    )
    dataset["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [selector]}}
    level = {
        "mediumtype": "SSD",
        "path": "/var/lib/docker/alluxio",
        "quota": "2Gi",
        "high": "0.95",
        "low": "0.7",
    }
    made = _object("AlluxioRuntime", replicas=2, tieredstore={"levels": [level]}, runAs=RUN_AS)
    program = reader("reader", "node-1", claim="test", program=_SHOW)
    program["spec"]["securityContext"] = {"runAsUser": USER, "runAsGroup": USER}
    kubernetes("label", "node", *NODES, "nonroot=true", "--overwrite")
    try:
        kubernetes("-n", namespace, "create", "-f", "-", stdin=as_list(dataset, made, program))
        # Whatever it says: a refusal is seen as one.
        kubernetes.wait(lambda: len(_said(kubernetes, namespace)) >= len(FOLDERS), "what the reader has read")
        said = _said(kubernetes, namespace)
        assert said == [_digest(f"{folders} {folder}") for folder in FOLDERS]
    finally:
        kubernetes("-n", namespace, "delete", "pod", "reader", "--grace-period=1")
        kubernetes("-n", namespace, "delete", "dataset", "test", "--timeout=300s", timeout_s=330)
        kubernetes("label", "node", *NODES, "nonroot-")


def test_a_folder_that_is_not_opened_is_refused_with_its_reason(
    opened: Release, kubernetes: Kubectl, namespace: str
) -> None:
    dataset = _object("Dataset", mounts=[{"mountPoint": "local:///etc", "name": "etc"}])
    kubernetes("-n", namespace, "create", "-f", "-", stdin=as_list(dataset, _object("AlluxioRuntime")))

    def reasons() -> set[str]:
        status = kubernetes.get("-n", namespace, "dataset", "test").get("status", {})
        return {each["reason"] for each in status.get("conditions", [])}

    kubernetes.wait(lambda: "FolderNotOpen" in reasons(), "the reason")
    assert parts_of(kubernetes, namespace, "master") == []
    kubernetes("-n", namespace, "delete", "dataset,alluxioruntime", "test", "--timeout=300s", timeout_s=330)


def _said(kubernetes: Kubectl, namespace: str) -> list[str]:
    return kubernetes("-n", namespace, "logs", "reader").splitlines()


def _object(kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "test"},
        "spec": spec,
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""The JindoFS way: buckets below /mnt/jfs on every node, in each of the ways that name buckets and hold keys."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from arena_on_kubernetes import Arena, JobOperator, operator_on
from arena_seeds import SUBMITS, words_of
from charts import NAMESPACE, Content, Release
from installing import wait_until_ready

from headrace.testing.kubernetes.build_images import TAG
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.images import image_tar
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.kubernetes.kubeflow_programs import MPI_OPERATOR, operator_image
from headrace.testing.kubernetes.node import Node
from headrace.testing.kubernetes.training import install_operator, job_root, uninstall_operator
from headrace.testing.oss_objects import OssBucket
from headrace.testing.oss_server import OssServer

pytestmark = [pytest.mark.root, pytest.mark.slow]

MASTER = "headrace-jindofs-master"
CACHE = "/var/lib/headrace/cache/jindofs"
ROLES = (f"statefulset/{MASTER}", "statefulset/headrace-jindofs-worker", "daemonset/headrace-jindofs-mount")
# As the document has it, but for bucket, keys, and an endpoint that does not speak TLS.
PROPERTIES = """\
jfs.namespaces: {name}
jfs.namespaces.{name}.mode :  cache
jfs.namespaces.{name}.oss.uri :  oss://bucket/k8s_c1
jfs.namespaces.{name}.oss.endpoint :  {endpoint}
jfs.namespaces.{name}.oss.access.key :  {id}
jfs.namespaces.{name}.oss.access.secret :  {secret}
"""
# In the place of the document's image: what its launcher tells of itself and of its ranks.
SEED_IMAGE = "headrace/test-seed-004"
LAUNCHER = """#!/bin/sh
mpirun sh -c 'echo rank $OMPI_COMM_WORLD_RANK of $num_batch read $(sha256sum < "$DATA_DIR/part.bin")'
echo "$num_batch $datasets_num_private_threads $*"
"""


@pytest.fixture(scope="module")
def oss(cluster: Cluster) -> Iterator[OssServer]:
    with OssServer(address=cluster.host_address) as server:
        server.buckets["bucket"] = OssBucket()
        server.buckets["bucket"].put("k8s_c1/part.bin", os.urandom(5 << 20))
        yield server


@pytest.fixture
def way(release: Release, cluster: Cluster) -> Iterator[Release]:
    """The release, on nodes that know nothing of an earlier way."""
    release.uninstall()
    for node in cluster.nodes:
        what = f"the end of the mount on {node.name}"
        cluster.kubectl.wait(lambda node=node: not _is_mounted(node), what)
        node.run("rm", "-rf", f"/var/lib/headrace/state/{NAMESPACE}/jindofs", CACHE)
    yield release
    release.uninstall()


def _is_mounted(node: Node) -> bool:
    return " /mnt/jfs " in node.run("cat", "/proc/self/mountinfo")


def _digest(oss: OssServer) -> str:
    known = oss.buckets["bucket"].get("k8s_c1/part.bin")
    assert known is not None
    return hashlib.sha256(known.read()).hexdigest()


def _secret(name: str, **values: str) -> Content:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}


def _keys(oss: OssServer) -> dict[str, str]:
    return {
        "fs.oss.accessKeyId": oss.keys.access_key_id,
        "fs.oss.accessKeySecret": oss.keys.access_key_secret,
    }


def _properties(oss: OssServer, name: str) -> str:
    keys = {"id": oss.keys.access_key_id, "secret": oss.keys.access_key_secret}
    return PROPERTIES.format(name=name, endpoint=oss.endpoint, **keys)


def _namespace(oss: OssServer, **more: object) -> Content:
    return {"uri": "oss://bucket/k8s_c1", "options": {"fs.oss.endpoint": oss.endpoint}, **more}


Way = Callable[[OssServer], tuple[Content, list[Content]]]
"""Values of the chart, and Secrets that an administrator made before."""

WAYS: dict[str, Way] = {
    "properties": lambda oss: ({"properties": _properties(oss, "properties")}, []),
    "existing-properties": lambda oss: (
        {"existingPropertiesSecret": "jindofs-file", "existingTokenSecret": "jindofs-token"},
        [
            _secret("jindofs-file", **{"jindofs.cfg": _properties(oss, "existing-properties")}),
            _secret("jindofs-token", token="a-token-of-more-than-sixteen"),
        ],
    ),
    "credentials": lambda oss: ({"namespaces": {"credentials": _namespace(oss, credentials=_keys(oss))}}, []),
    "existing-secret": lambda oss: (
        {"namespaces": {"existing-secret": _namespace(oss, existingSecret="oss-keys")}},
        [_secret("oss-keys", **_keys(oss))],
    ),
}
"""By the name of the namespace that each shows."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.short] if name == "properties" else []) for name in WAYS]
)
def test_pods_of_every_node_read_the_bucket_through_a_folder_of_the_node(
    kubernetes: Kubectl, way: Release, oss: OssServer, namespace: str, name: str
) -> None:
    given, secrets = WAYS[name](oss)
    if secrets:
        kubernetes.apply(*secrets, namespace=NAMESPACE)
    cache = [{"path": CACHE, "quota": "100Mi", "medium": "SSD"}]
    values = {"jindofs": {"enabled": True, "worker": {"cache": cache}, **given}}
    way.install(values)
    wait_until_ready(kubernetes, "daemonset/headrace-csi", *ROLES)
    nodes = [each["metadata"]["name"] for each in kubernetes.get("nodes")["items"]]
    kubernetes.apply(*(_reader(node) for node in nodes), namespace=namespace)
    for node in nodes:
        folder = f"/mnt/jfs/{name}"
        kubernetes("-n", namespace, "wait", "--for=condition=Ready", f"pod/{node}", "--timeout=300s")
        kubernetes.wait(
            lambda node=node: (
                kubernetes("-n", namespace, "exec", node, "--", "ls", "/mnt/jfs").split() == [name]
            ),
            f"{folder} alone on {node}",
        )
        words = ("exec", node, "--", "sha256sum", f"{folder}/part.bin")
        assert kubernetes("-n", namespace, *words).split()[0] == _digest(oss)
    _check_that_keys_are_in_secrets_alone(kubernetes, oss)
    _kill_mounts_and_read_on(kubernetes, namespace, nodes, f"/mnt/jfs/{name}/part.bin", _digest(oss))
    token = _token(kubernetes, given)
    way.install(values)
    assert _token(kubernetes, given) == token
    kubernetes("-n", namespace, "delete", "pods", "--all", "--grace-period=1")
    if secrets:
        kubernetes("-n", NAMESPACE, "delete", "secret", *(each["metadata"]["name"] for each in secrets))


def test_readers_go_on_while_driver_and_mounts_are_replaced_at_once(
    kubernetes: Kubectl, way: Release, oss: OssServer, namespace: str
) -> None:
    """As in an upgrade to other images: helm changes both at the same moment."""
    cache = [{"path": CACHE, "quota": "100Mi", "medium": "SSD"}]
    jindofs = {"enabled": True, "worker": {"cache": cache}, "properties": _properties(oss, "train")}
    way.install({"jindofs": jindofs})
    wait_until_ready(kubernetes, "daemonset/headrace-csi", *ROLES)
    nodes = [each["metadata"]["name"] for each in kubernetes.get("nodes")["items"]]
    script = "while :; do sha256sum /mnt/jfs/train/part.bin 2>&1; sleep 0.2; done"
    kubernetes.apply(*(_reader(node, script) for node in nodes), namespace=namespace)

    def lines(node: str) -> list[str]:
        return kubernetes("-n", namespace, "logs", node).splitlines()

    for node in nodes:
        kubernetes.wait(lambda node=node: len(lines(node)) > 5, f"a reader on {node}")
    jindofs["mount"] = {"memory": "500Mi"}
    way.install({"jindofs": jindofs, "csi": {"podAnnotations": {"example.com/upgraded": "yes"}}})
    wait_until_ready(kubernetes, "daemonset/headrace-csi", *ROLES)
    for node in nodes:
        before = len(lines(node))
        kubernetes.wait(lambda node=node, before=before: len(lines(node)) > before + 5, f"more on {node}")
        assert set(lines(node)) == {f"{_digest(oss)}  /mnt/jfs/train/part.bin"}
    kubernetes("-n", namespace, "delete", "pods", "--all", "--grace-period=1")


@pytest.fixture
def gpus(kubernetes: Kubectl) -> Iterator[None]:
    """Each node has as many GPUs as the documents' nodes, for all that Kubernetes knows."""
    nodes = [each["metadata"]["name"] for each in kubernetes.get("nodes")["items"]]

    def change(verb: str, **value: str) -> None:
        paths = [f"/status/{what}/nvidia.com~1gpu" for what in ("capacity", "allocatable")]
        patch = json.dumps([{"op": verb, "path": path, **value} for path in paths])
        for node in nodes:
            kubernetes("patch", "node", node, "--subresource=status", "--type=json", "-p", patch)

    change("add", value="8")
    yield
    change("remove")


@pytest.fixture
def image(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """The document's image on all nodes, as far as its line of `arena submit` knows it; and the MPI operator."""
    launcher = tmp_path / "layer" / "perseus-demo" / "tensorflow-demo" / "launch-example.sh"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    layers = [job_root(), tmp_path / "layer"]
    cluster.load_image(image_tar(SEED_IMAGE, TAG, layers, to=tmp_path / "image.tar"))
    operator = JobOperator(
        lambda folder: (operator_image(MPI_OPERATOR, folder),), install_operator, uninstall_operator
    )
    with operator_on(cluster, operator):
        yield f"{SEED_IMAGE}:{TAG}"


def test_the_job_of_seed_004_reads_its_folder_of_the_nodes(
    kubernetes: Kubectl, way: Release, oss: OssServer, gpus: None, image: str
) -> None:
    """Word for word, but for the image: four nodes with eight GPUs each, and /mnt/jfs/test on all of them."""
    cache = [{"path": CACHE, "quota": "100Mi", "medium": "SSD"}]
    jindofs = {"enabled": True, "worker": {"cache": cache}, "properties": _properties(oss, "test")}
    way.install({"jindofs": jindofs})
    wait_until_ready(kubernetes, "daemonset/headrace-csi", *ROLES)
    arena = Arena(kubernetes, "default")
    mapped = {"--image": (f"--image={image}", "--image-pull-policy=Never")}
    line = words_of(SUBMITS["004"])
    done = arena.run(*(word for each in line for word in mapped.get(each.partition("=")[0], (each,))))
    assert done.returncode == 0, done.stderr
    assert "mpijob.kubeflow.org/job-jindofs created" in done.stdout
    code = arena.wait_for_end("job-jindofs", "600s")
    log = arena("logs", "job-jindofs")
    assert code == 0, log
    *ranks, last = log.splitlines()
    assert sorted(ranks) == sorted(f"rank {rank} of 1000 read {_digest(oss)} -" for rank in range(32))
    assert last == "1000 8 4 8"
    arena.delete("job-jindofs")


def _kill_mounts_and_read_on(
    kubernetes: Kubectl, namespace: str, nodes: list[str], path: str, digest: str
) -> None:
    mounts = ("-n", NAMESPACE, "delete", "pods", "-l", "app.kubernetes.io/component=jindofs-mount")
    kubernetes(*mounts, "--grace-period=0", "--force")
    for node in nodes:
        assert kubernetes("-n", namespace, "exec", node, "--", "sha256sum", path).split()[0] == digest


def _token(kubernetes: Kubectl, given: Content) -> object:
    name = given.get("existingTokenSecret") or "headrace-jindofs-token"
    return kubernetes.get("-n", NAMESPACE, "secret", name)["data"]


def _check_that_keys_are_in_secrets_alone(kubernetes: Kubectl, oss: OssServer) -> None:
    kinds = "configmaps,statefulsets,daemonsets,deployments,pods"
    shown = json.dumps(kubernetes.get("-n", NAMESPACE, kinds))
    assert oss.endpoint in shown or "jindofs" in shown, "the test sees the settings"
    key = oss.keys.access_key_secret
    assert key not in shown
    assert base64.b64encode(key.encode()).decode() not in shown
    for role in ROLES:
        assert key not in kubernetes("-n", NAMESPACE, "logs", role, "--all-pods")


def _reader(node: str, script: str = "sleep 3600") -> Content:
    container = {
        "name": "reader",
        "image": "headrace/test-tools:test",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "jfs", "mountPath": "/mnt/jfs", "mountPropagation": "HostToContainer"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": node},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "jfs", "hostPath": {"path": "/mnt/jfs"}}],
        },
    }

"""A dataset whose surroundings are lost and come back: nodes, the storage, workers, the version that it runs."""

from __future__ import annotations

import hashlib
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from charts import NAMESPACE, Content, Release
from datasets_on_kubernetes import (
    Bucket,
    Reading,
    await_ready,
    bound_dataset,
    parts_of,
    reader,
    runtime,
    served_bucket,
)
from installing import ROLLED_OUT, wait_until_ready

from headrace.testing.kubernetes.build_images import build_images
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.kubernetes.next_image import next_image

pytestmark = [pytest.mark.root, pytest.mark.slow]

READERS = ("node-1", "node-2", "node-3")
# The master may be on the other two, so that the loss of a worker and that of the master are two tests.
WORKERS, MASTERS = ["node-1", "node-2"], ["node-3", "node-4"]
MASTERS_LABEL = "headrace.test/masters"
READ, UNREAD = "train", "late"
COLD = ("class-0/image-000.bin", "class-2/image-002.bin", "class-3/image-003.bin")
# Prints a file's digest, and the seconds that reading it took.
_TIMED = """
import hashlib, sys, time
began = time.monotonic()
with open(sys.argv[1], "rb") as file:
    content = file.read()
print(hashlib.sha256(content).hexdigest(), time.monotonic() - began)
"""


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with served_bucket(cluster.host_address, tmp_path_factory.mktemp("s3")) as made:
        made.fill(12, 100_000, below=READ)
        made.fill(4, 100_000, below=UNREAD)
        yield made


@pytest.fixture(scope="module")
def reading(release: Release, kubernetes: Kubectl, bucket: Bucket) -> Iterator[Reading]:
    """Readers of a part of the dataset, also on a node that has no worker."""
    namespace = f"losses-{uuid.uuid4().hex[:6]}"
    kubernetes("create", "namespace", namespace)
    kubernetes("label", "nodes", "--overwrite", *MASTERS, f"{MASTERS_LABEL}=yes")
    words = {"key": "kubernetes.io/hostname", "operator": "In", "values": WORKERS}
    dataset = bucket.dataset(
        nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [words]}]}}
    )
    declared = runtime(master={"nodeSelector": {MASTERS_LABEL: "yes"}})
    pods = tuple(f"reader-{node}" for node in READERS)
    with bound_dataset(kubernetes, namespace, bucket.secret(), dataset, declared):
        made = [reader(pod, node, below=READ, stays=True) for pod, node in zip(pods, READERS, strict=True)]
        kubernetes.apply(*made, namespace=namespace)
        found = Reading(kubernetes, namespace, pods, bucket.digest(READ))
        found.begin()
        yield found
    kubernetes("delete", "namespace", namespace, "--wait=false")
    kubernetes("label", "nodes", *MASTERS, f"{MASTERS_LABEL}-")


def test_a_node_is_lost_and_found(kubernetes: Kubectl, reading: Reading, cluster: Cluster) -> None:
    before = _nodes(reading, "worker")
    cluster.node("node-2").cut()
    try:
        kubernetes.wait(lambda: _says(reading, "NodesNotReady", "node-2"), "a word about the lost node")
        assert reading.condition("Ready")["status"] == "True"
        reading.only("node-1", "node-3").go_on()
    finally:
        cluster.node("node-2").repair()
    _await_all_well(reading)
    reading.go_on()
    assert _nodes(reading, "worker") == before
    told = kubernetes("-n", reading.namespace, "get", "events", "--field-selector=reason=NodesNotReady")
    assert "1 of 2 workers are on nodes that are not ready: node-2" in told


def test_a_master_on_a_lost_node_goes_on_elsewhere(
    kubernetes: Kubectl, reading: Reading, cluster: Cluster
) -> None:
    (lost,) = _nodes(reading, "master").values()
    cluster.node(lost).cut()
    try:
        kubernetes.wait(lambda: _says(reading, "NodesNotReady", lost), "a word about the lost node")
        reading.only("node-1", "node-2").go_on()
        kubernetes.wait(lambda: lost not in _nodes(reading, "master").values(), "a master elsewhere")
        await_ready(kubernetes, reading.namespace, "master")
    finally:
        cluster.node(lost).repair()
    _await_all_well(reading)
    reading.go_on()


def test_a_node_that_was_rebooted_has_everything_again_and_nothing_twice(
    kubernetes: Kubectl, reading: Reading, cluster: Cluster
) -> None:
    node, pod = cluster.node("node-1"), "reader-node-1"
    node.reboot()
    reading.only("node-2", "node-3").go_on()

    def restarts() -> int:
        shown = kubernetes.get("-n", reading.namespace, "pod", pod)["status"]["containerStatuses"][0]
        return int(shown["restartCount"]) if shown["ready"] else 0

    kubernetes.wait(lambda: restarts() == 1, "the reader's second start")
    kubernetes.wait(lambda: reading.passes(pod) > 1, "a pass of the reader")
    await_ready(kubernetes, NAMESPACE, "csi")
    _await_all_well(reading)
    words = ("--list", "--noheadings", "--types", "fuse.headrace", "--output", "TARGET")
    targets = node.run("findmnt", *words).split()
    uid = kubernetes.get("-n", reading.namespace, "pod", pod)["metadata"]["uid"]
    assert sorted(targets) == [
        f"/var/lib/headrace/mounts/{reading.namespace}/imagenet",
        f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~csi/imagenet.{reading.namespace}/mount",
    ]
    assert len(node.run("find", "/var/lib/headrace/csi/published", "-type", "f").split()) == 1


def test_cold_reads_do_not_wait_for_a_new_master_to_know_its_workers(
    kubernetes: Kubectl, reading: Reading, bucket: Bucket
) -> None:
    """A master that lost its pod and state is quiet for 26 s; all go on by the view that they have."""
    (master,) = parts_of(kubernetes, reading.namespace, "master")
    before = master["metadata"]["uid"]
    words = ("delete", "pod", master["metadata"]["name"], "--grace-period=1", "--wait=false")
    kubernetes("-n", reading.namespace, *words)

    def is_another() -> bool:
        found = [each["metadata"]["uid"] for each in parts_of(kubernetes, reading.namespace, "master")]
        return bool(found) and before not in found

    kubernetes.wait(is_another, "another master")
    await_ready(kubernetes, reading.namespace, "master")
    for pod, name in zip(reading.pods, COLD, strict=True):
        words = ("exec", pod, "--", "python3", "-c", _TIMED, f"/data/{UNREAD}/{name}")
        digest, took_s = kubernetes("-n", reading.namespace, *words).split()
        assert digest == hashlib.sha256((bucket.folder / UNREAD / name).read_bytes()).hexdigest()
        assert float(took_s) < 10, f"{pod} waited for {took_s} s"
    _await_all_well(reading)
    reading.go_on()


def test_the_storage_is_away_for_a_while(kubernetes: Kubectl, reading: Reading, bucket: Bucket) -> None:
    late = "late/class-1/image-001.bin"
    words = ("-n", reading.namespace, "exec", "reader-node-3", "--", "sha256sum", f"/data/{late}")
    bucket.server.stop()
    try:
        asked = subprocess.Popen(kubernetes.command(*words), stdout=subprocess.PIPE, text=True)
        kubernetes.wait(lambda: _says(reading, "BucketUnreachable", "worker-"), "a word about the storage")
        assert reading.condition("Ready")["status"] == "True"
        # A master that starts now lists nothing; what is read is what the others know.
        (master,) = parts_of(kubernetes, reading.namespace, "master")
        kubernetes(
            "-n",
            reading.namespace,
            "delete",
            "pod",
            master["metadata"]["name"],
            "--grace-period=1",
            "--wait=false",
        )
        kubernetes.wait(lambda: _says(reading, "BucketUnreachable", "listed"), "a word of the new master")
        assert reading.condition("Ready")["status"] == "True"
        # A mount that begins beside such a master goes by what its node knew last.
        before = _nodes(reading, "mount")
        (on_first,) = (pod for pod, node in before.items() if node == "node-1")
        kubernetes("-n", reading.namespace, "delete", "pod", on_first, "--grace-period=1")
        kubernetes.wait(lambda: len(_nodes(reading, "mount")) == len(before), "another mount")
        await_ready(kubernetes, reading.namespace, "mount")
        reading.go_on()
        assert asked.poll() is None, "what is not cached was answered without a storage"
    finally:
        bucket.server.give_keys(bucket.server.credentials)
    said, _ = asked.communicate(timeout=120)
    expected = subprocess.run(["sha256sum", bucket.folder / late], capture_output=True, text=True, check=True)
    assert said.split()[0] == expected.stdout.split()[0]
    _await_all_well(reading)


def test_workers_that_go_and_come_leave_the_storage_alone(
    kubernetes: Kubectl, reading: Reading, bucket: Bucket
) -> None:
    reading.go_on()
    before = bucket.server.requests()["GetObject"]
    for replicas, node in ((1, "node-4"), (2, "node-3")):
        kubernetes("-n", reading.namespace, "scale", "alluxioruntime", "imagenet", f"--replicas={replicas}")
        kubernetes.wait(
            lambda: len(_nodes(reading, "worker")) == replicas,  # noqa: B023
            f"{replicas} workers",
        )
        _await_all_well(reading)
        # Its mount has nothing in memory: what it reads comes from workers.
        fresh = Reading(kubernetes, reading.namespace, (f"fresh-{replicas}-{node}",), reading.digest)
        kubernetes.apply(reader(fresh.pods[0], node, below=READ), namespace=reading.namespace)
        fresh.begin()
        reading.go_on()
        kubernetes("-n", reading.namespace, "delete", "pod", *fresh.pods)
    assert bucket.server.requests()["GetObject"] == before


def test_another_version_comes_and_goes_under_readers(
    kubernetes: Kubectl,
    release: Release,
    reading: Reading,
    bucket: Bucket,
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    # A master that lists anew numbers all files otherwise than kernels know them by now.
    bucket.fill(4, 50_000, below="added")
    kubernetes.apply(_listing_anew(reading.namespace), namespace=reading.namespace)
    done = ("wait", "dataload/anew", "--for=jsonpath={.status.phase}=Complete", "--timeout=300s")
    kubernetes("-n", reading.namespace, *done, timeout_s=330)
    reading.go_on()

    images = build_images()
    for archive in (images.operator, images.engine):
        named = {"/usr/local/share/headrace/next": b"next\n"}
        cluster.load_image(next_image(archive, "next", named, to=tmp_path / archive.name))
    other = {"tag": "next", "pullPolicy": "Never"}
    release.install({"image": {"operator": other, "engine": other}})
    _await_version(kubernetes, reading, "next")
    mount = parts_of(kubernetes, reading.namespace, "mount")[0]["metadata"]["name"]
    shown = ("exec", mount, "--", "cat", "/usr/local/share/headrace/next")
    assert kubernetes("-n", reading.namespace, *shown) == "next\n"
    release.roll_back()
    _await_version(kubernetes, reading, "test")


def _listing_anew(namespace: str) -> Content:
    dataset = {"name": "imagenet", "namespace": namespace}
    return {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "DataLoad",
        "metadata": {"name": "anew"},
        "spec": {"dataset": dataset, "loadMetadata": True, "target": [{"path": f"/{READ}", "replicas": 1}]},
    }


def _await_version(kubernetes: Kubectl, reading: Reading, tag: str) -> None:
    """Until the chart and all roles are of this version, in their order; readers read on meanwhile."""
    seen: list[str] = []

    def is_there() -> bool:
        for component in ("master", "worker", "mount"):
            pods = parts_of(kubernetes, reading.namespace, component)
            if component not in seen and any(_tag(pod) == tag for pod in pods):
                seen.append(component)
            if not pods or any(_tag(pod) != tag for pod in pods):
                return False
        return True

    wait_until_ready(kubernetes, *ROLLED_OUT)
    reading.go_on()
    kubernetes.wait(is_there, f"roles of version {tag}")
    assert seen[0] == "master"
    _await_all_well(reading)
    reading.go_on()


def _await_all_well(reading: Reading) -> None:
    """Until every pod of the dataset is ready and it has nothing to complain of."""
    for component in ("master", "worker", "mount"):
        await_ready(reading.kubectl, reading.namespace, component)
    reading.kubectl.wait(
        lambda: (
            reading.condition("Ready")["status"] == "True"
            and reading.condition("Degraded").get("status", "False") == "False"
        ),
        "a dataset with which nothing is wrong",
    )


def _says(reading: Reading, reason: str, word: str = "") -> bool:
    """True while the dataset is degraded for this reason and names that."""
    said = reading.condition("Degraded")
    return bool(said) and (said["status"], said["reason"]) == ("True", reason) and word in said["message"]


def _nodes(reading: Reading, component: str) -> dict[str, str]:
    """The nodes of the pods of a role that are there to stay."""
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
        for pod in parts_of(reading.kubectl, reading.namespace, component)
        if not pod["metadata"].get("deletionTimestamp")
    }


def _tag(pod: Content) -> str:
    return str(pod["spec"]["containers"][0]["image"]).rpartition(":")[2]

"""The documents that Headrace follows, with the real kubectl on four nodes of a real cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from charts import Release
from datasets_on_kubernetes import READER_IMAGE, HostLink, delete_pods
from seed_backends import DEADLINE_S, FILES, LABEL, NODES, Desk, fill_nfs, fill_oss, fill_s3
from seed_documents import SeedDocuments

from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.nfs_server import NfsServer
from headrace.testing.oss_server import OssServer
from headrace.testing.s3_server import S3Server

pytestmark = [pytest.mark.root, pytest.mark.slow]

DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
_READ = """
import hashlib, os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            print(os.path.relpath(path, sys.argv[1]), hashlib.sha256(file.read()).hexdigest())
"""


def _reader(pod: str, node: str, dataset: str, folder: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": READER_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", _READ, f"/data/{folder}".rstrip("/")],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = {
        "containers": [container],
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": node},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": dataset}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec}


class KubernetesDesk(Desk):
    """The real kubectl."""

    newer = {"VOLUMEATTRIBUTESCLASS": "<unset>"}

    def __init__(self, kubectl: Kubectl, folder: Path, nodes: tuple[str, ...]) -> None:
        super().__init__(folder)
        self._kubectl = kubectl
        self._nodes = nodes

    def run(self, *words: str) -> str:
        return self._kubectl(*words, timeout_s=2 * DEADLINE_S)

    def read(self, dataset: str, folder: str) -> None:
        """In a pod on every node."""
        pods = {f"reads-{dataset}-{node}": node for node in self._nodes}
        made = (_reader(pod, node, dataset, folder) for pod, node in pods.items())
        self._kubectl.apply(*made, namespace="default")
        for pod in pods:
            self.say(f"wait --for=jsonpath={{.status.phase}}=Succeeded pod/{pod} --timeout 180s")
            assert dict(line.split() for line in self.say(f"logs {pod}").splitlines()) == DIGESTS
        self.say(f"delete pods {' '.join(pods)}")

    def expect_nothing(self, dataset: str) -> None:
        kinds = "datasets,alluxioruntimes,jindoruntimes,persistentvolumeclaims,persistentvolumes,pods"
        self._kubectl.wait(lambda: not self.say(f"get {kinds} --output name"), f"nothing of {dataset}")


@pytest.fixture(scope="module")
def desk(
    release: Release, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubernetesDesk]:
    """Four nodes with the label of the documents' nodes."""
    nodes = tuple(node.name for node in cluster.nodes)[:NODES]
    if len(nodes) < NODES:
        pytest.skip(f"the documents need {NODES} nodes")
    cluster.kubectl("label", "nodes", *nodes, LABEL, "--overwrite")
    yield KubernetesDesk(cluster.kubectl, tmp_path_factory.mktemp("seeds"), nodes)
    cluster.kubectl("label", "nodes", *nodes, f"{LABEL.partition('=')[0]}-")


@pytest.fixture(scope="module")
def oss(cluster: Cluster) -> Iterator[OssServer]:
    with OssServer(address=cluster.host_address) as server:
        fill_oss(server)
        yield server


@pytest.fixture
def s3(cluster: Cluster, tmp_path: Path) -> Iterator[S3Server]:
    link = HostLink(cluster.host_address)
    with S3Server(tmp_path / "objects", state=tmp_path / "server", link=link) as server:
        fill_s3(server)
        yield server


@pytest.fixture
def nfs(cluster: Cluster, tmp_path: Path) -> Iterator[NfsServer]:
    with NfsServer(tmp_path / "export", state=tmp_path / "server", link=cluster.plug_outside()) as server:
        fill_nfs(server)
        yield server


@pytest.fixture(autouse=True)
def nothing_stays(desk: KubernetesDesk, cluster: Cluster) -> Iterator[None]:
    """What the documents' own commands left of a dataset."""
    yield
    delete_pods(cluster.kubectl, "default")
    desk.say("delete dataset,alluxioruntime,jindoruntime --all --timeout 120s")
    desk.say("delete secret mysecret --ignore-not-found")
    desk.say("delete pvc,pv --all --timeout 60s")


class TestOnKubernetes(SeedDocuments):
    """Each document, from its first command to its last."""

"""A Kubernetes of the benchmark's own with the chart on it, and what is measured there. Knows no rows."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.testing.kubernetes.build_images import TAG, build_images
from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.network import LoopbackLink
from headrace.testing.s3_server import S3Server

ROOT = Path(__file__).parents[2]
SYSTEM = "headrace-system"
DATASETS = "datasets"
LIMIT_S = 1500.0
_API = "data.fluid.io/v1alpha1"
_AT_ONCE = 50
"""Datasets of one call of kubectl."""
_FILES, _FILE_BYTES = 24, 300_000
_NEVER = {"cpu": "1000"}
"""More than any node has: pods that ask for it are made, and wait."""


class _HostLink(LoopbackLink):
    """A server at the address by which pods reach this machine."""

    def __init__(self, address: str) -> None:
        self.server_address = address


@dataclass(frozen=True)
class Bed:
    """A cluster of two nodes with the chart, its images there, and a server with a bucket."""

    kubectl: Kubectl
    server: S3Server

    def seconds_to_bound(self, name: str) -> float:
        """`kubectl create` of a Dataset with two workers, until it is Bound. It is gone afterwards."""
        shown = _as_list(*_readable_dataset(name, self.server))
        begin = time.perf_counter()
        self.kubectl("-n", DATASETS, "create", "-f", "-", stdin=shown)
        bound = (f"dataset/{name}", "--for=jsonpath={.status.phase}=Bound", "--timeout=300s")
        self.kubectl("-n", DATASETS, "wait", *bound)
        seconds = time.perf_counter() - begin
        self.kubectl("-n", DATASETS, "delete", "dataset", name, "--timeout=300s")
        return seconds

    def declare(self, count: int) -> None:
        """So many datasets whose master no node has room for; returns when each has a pod that waits."""
        for start in range(0, count, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, count))
            shown = _as_list(*(each for number in numbers for each in _waiting_dataset(f"waiting-{number}")))
            self.kubectl("-n", DATASETS, "create", "-f", "-", stdin=shown)
        self.kubectl.wait(lambda: self._masters() == count, f"{count} masters that wait", timeout_s=LIMIT_S)

    def _masters(self) -> int:
        selector = ("-l", "app.kubernetes.io/component=master")
        return len(self.kubectl("-n", DATASETS, "get", "pods", *selector, "-o", "name").split())

    def operator_mib(self) -> float:
        """What the larger one of the operator's pods has in use, as kubelet counts it against the pod's limit."""
        sizes = [
            pod["memory"]["workingSetBytes"]
            for node in self.kubectl.get("nodes")["items"]
            for pod in self._pods_of(node["metadata"]["name"])
            if pod["podRef"]["name"].startswith("headrace-operator-") and "memory" in pod
        ]
        return float(max(sizes)) / (1 << 20)

    def _pods_of(self, node: str) -> list[dict[str, Any]]:
        page = json.loads(self.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary"))
        return list(page["pods"])


@contextlib.contextmanager
def running_bed(folder: Path) -> Iterator[Bed]:
    """One in this folder, taken away at the end with all that it made."""
    cluster = Cluster.up(folder / "cluster", nodes=2, images=build_images(), lives_with=os.getpid())
    try:
        _install(cluster.kubeconfig)
        rolled_out = ("deployment/headrace-operator", "deployment/headrace-webhook", "daemonset/headrace-csi")
        for name in rolled_out:
            cluster.kubectl("-n", SYSTEM, "rollout", "status", name, "--timeout=300s")
        cluster.kubectl("create", "namespace", DATASETS)
        link = _HostLink(cluster.host_address)
        with S3Server(folder / "objects", state=folder / "server", link=link) as server:
            _fill(server.bucket_folder(DATASETS))
            yield Bed(cluster.kubectl, server)
    finally:
        cluster.down()


def _install(kubeconfig: Path) -> None:
    found = subprocess.run([ROOT / "tools" / "install_helm.sh"], capture_output=True, text=True, check=True)
    image = {"tag": TAG, "pullPolicy": "Never"}
    words = (
        "install",
        "headrace",
        str(ROOT / "deploy" / "chart"),
        "--namespace",
        SYSTEM,
        "--create-namespace",
    )
    subprocess.run(
        [found.stdout.strip(), *words, "--kubeconfig", str(kubeconfig), "--values", "-"],
        input=json.dumps({"image": {"operator": image, "engine": image}}),
        capture_output=True,
        text=True,
        check=True,
    )


def _fill(bucket: Path) -> None:
    bucket.mkdir(parents=True, exist_ok=True)
    for number in range(_FILES):
        (bucket / f"file-{number:02}").write_bytes(os.urandom(_FILE_BYTES))


def _readable_dataset(name: str, server: S3Server) -> list[dict[str, Any]]:
    keys = server.credentials
    options = {
        "endpoint": server.endpoint,
        "region": server.region,
        "path-style": "true",
        "access-key-id": keys.access_key_id,
        "secret-access-key": keys.secret_access_key,
    }
    mount = {"mountPoint": f"s3://{DATASETS}/", "name": name, "path": "/", "options": options}
    return _dataset(name, mount, replicas=2)


def _waiting_dataset(name: str) -> list[dict[str, Any]]:
    mount = {"mountPoint": "https://data.example.com/", "name": name}
    return _dataset(name, mount, replicas=2, master={"resources": {"requests": _NEVER}})


def _dataset(name: str, mount: dict[str, Any], **runtime: Any) -> list[dict[str, Any]]:
    level = {"mediumtype": "SSD", "path": f"/var/lib/cache/{name}", "quota": "1Gi"}
    spec = {"tieredstore": {"levels": [level]}, **runtime}
    kinds = (("Dataset", {"mounts": [mount]}), ("AlluxioRuntime", spec))
    return [
        {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": content}
        for kind, content in kinds
    ]


def _as_list(*objects: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})

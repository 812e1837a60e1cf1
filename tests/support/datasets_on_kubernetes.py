"""A bucket, a dataset of it, and pods that read it over and over, by which a test sees what a cluster suffers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.network import LoopbackLink
from headrace.testing.s3_server import S3Server

READER_IMAGE = "headrace/test-tools:test"

# Prints the digest of all files and their names, pass after pass; the page cache is asked to forget them before each.
_READ = """
import hashlib, os, sys, time
while True:
    whole = hashlib.sha256()
    for folder, folders, names in os.walk(os.path.join("/data", sys.argv[1])):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            whole.update(os.path.relpath(path, "/data").encode())
            while part := os.read(file, 1 << 20):
                whole.update(part)
            os.close(file)
    print(whole.hexdigest(), flush=True)
    time.sleep(0.1)
"""


class HostLink(LoopbackLink):
    """A server at the address by which nodes and pods reach this machine."""

    def __init__(self, address: str) -> None:
        self.server_address = address


@dataclass
class Bucket:
    """A bucket of a real S3 server with some files."""

    server: S3Server
    name: str = "imagenet"

    @property
    def folder(self) -> Path:
        """Where the server keeps its objects."""
        return self.server.bucket_folder(self.name)

    def fill(self, count: int = 24, size_bytes: int = 300_000, *, below: str = "") -> None:
        """Files of random bytes, none as long as another."""
        for number in range(count):
            path = self.folder / below / f"class-{number % 4}" / f"image-{number:03}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(size_bytes + 977 * number))

    def digest(self, below: str = "") -> str:
        """What a reader prints when it has read everything right."""
        whole = hashlib.sha256()
        for folder, folders, names in os.walk(self.folder / below):
            folders.sort()
            for name in sorted(names):
                path = Path(folder, name)
                whole.update(str(path.relative_to(self.folder)).encode())
                whole.update(path.read_bytes())
        return whole.hexdigest()

    def secret(self, name: str = "keys") -> dict[str, Any]:
        """Its keys."""
        keys = self.server.credentials
        values = {"id": keys.access_key_id, "secret": keys.secret_access_key}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}

    def dataset(self, name: str = "imagenet", **spec: Any) -> dict[str, Any]:
        """A Dataset of the whole bucket."""
        options = {"endpoint": self.server.endpoint, "region": self.server.region, "path-style": "true"}
        keys = [("access-key-id", "id"), ("secret-access-key", "secret")]
        encrypted = [
            {"name": option, "valueFrom": {"secretKeyRef": {"name": "keys", "key": key}}}
            for option, key in keys
        ]
        mount = {"mountPoint": f"s3://{self.name}/", "name": name, "path": "/", "options": options}
        return {
            "apiVersion": "data.fluid.io/v1alpha1",
            "kind": "Dataset",
            "metadata": {"name": name},
            "spec": {"mounts": [mount | {"encryptOptions": encrypted}], **spec},
        }


def runtime(name: str = "imagenet", replicas: int = 2, **spec: Any) -> dict[str, Any]:
    """An AlluxioRuntime with a small cache on the nodes' disks."""
    level = {"mediumtype": "SSD", "path": "/var/lib/cache", "quota": "1Gi", "high": "0.99", "low": "0.8"}
    return {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "AlluxioRuntime",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "tieredstore": {"levels": [level]}, **spec},
    }


def reader(
    name: str,
    node: str | None = None,
    claim: str = "imagenet",
    *,
    below: str = "",
    stays: bool = False,
    program: str = _READ,
) -> dict[str, Any]:
    """A pod that reads the claim over and over, or a folder of it, by this program.

    With `stays` it is started again where it was, and not evicted while its node is away.
    """
    container = {
        "name": "main",
        "image": READER_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", program, below],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec: dict[str, Any] = {
        "containers": [container],
        "restartPolicy": "Always" if stays else "Never",
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}] if stays else [],
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@dataclass(frozen=True)
class Reading:
    """The readers of a namespace, as seen from outside."""

    kubectl: Kubectl
    namespace: str
    pods: tuple[str, ...]
    digest: str

    def passes(self, pod: str) -> int:
        """How often a pod has read everything. Fails on a wrong byte, and on a reader that has ended."""
        printed = self.kubectl("-n", self.namespace, "logs", pod).split()
        assert set(printed) <= {self.digest}, f"{pod} read something else: {sorted(set(printed))}"
        status = self.kubectl.get("-n", self.namespace, "pod", pod)["status"]
        assert status["phase"] in {"Pending", "Running"}, f"{pod} has {status['phase']}"
        for each in status.get("containerStatuses", []):
            # A power cut is no failure; an exception is.
            assert each.get("lastState", {}).get("terminated", {}).get("exitCode") != 1, (
                f"{pod} failed: {each}"
            )
        return len(printed)

    def begin(self) -> None:
        """Returns when each pod has read everything once."""
        self.kubectl.wait(lambda: all(map(self.passes, self.pods)), "a pass of each reader")

    def go_on(self, passes: int = 2) -> None:
        """Returns when each pod has read everything so many times more."""
        before = {pod: self.passes(pod) for pod in self.pods}
        self.kubectl.wait(
            lambda: all(self.passes(pod) >= before[pod] + passes for pod in self.pods),
            f"{passes} more passes of {', '.join(self.pods)}",
        )

    def only(self, *nodes: str) -> Reading:
        """Those of some nodes, by the ends of their names."""
        return replace(self, pods=tuple(pod for pod in self.pods if pod.endswith(nodes)))

    def condition(self, kind: str, dataset: str = "imagenet") -> dict[str, Any]:
        """What the dataset says of one thing; nothing when it has not said it yet."""
        status = self.kubectl.get("-n", self.namespace, "dataset", dataset)["status"]
        return next((each for each in status["conditions"] if each["type"] == kind), {})


@contextlib.contextmanager
def served_bucket(address: str, folder: Path) -> Iterator[Bucket]:
    """A bucket without files, of a server at the address by which pods reach this machine."""
    with S3Server(folder / "buckets", state=folder / "state", link=HostLink(address)) as server:
        yield Bucket(server)


@contextlib.contextmanager
def bound_dataset(kubectl: Kubectl, namespace: str, *objects: dict[str, Any]) -> Iterator[None]:
    """The dataset of these objects, once programs can read it. It goes in the end, and who reads it."""
    kubectl("-n", namespace, "create", "-f", "-", stdin=as_list(*objects))
    bound = ("wait", "dataset/imagenet", "--for=jsonpath={.status.phase}=Bound", "--timeout=300s")
    try:
        kubectl("-n", namespace, *bound, timeout_s=330)
        yield
    finally:
        delete_pods(kubectl, namespace)
        kubectl("-n", namespace, "delete", "dataset", "--all", "--timeout=300s", timeout_s=330)


def delete_pods(kubectl: Kubectl, namespace: str) -> None:
    """Ends all pods of a namespace. kubectl itself can go on waiting for one that came anew by the same name."""
    before = _pods(kubectl, namespace)
    kubectl("-n", namespace, "delete", "pods", "--all", "--grace-period=1", "--wait=false")
    kubectl.wait(lambda: not before & _pods(kubectl, namespace), "the end of pods")


def _pods(kubectl: Kubectl, namespace: str) -> set[str]:
    return {each["metadata"]["uid"] for each in kubectl.get("-n", namespace, "pods")["items"]}


def await_ready(kubectl: Kubectl, namespace: str, component: str) -> None:
    """Returns when all pods of one kind of role are ready."""

    def ready() -> bool:
        pods = parts_of(kubectl, namespace, component)
        conditions = [pod["status"].get("conditions", []) for pod in pods]
        return bool(pods) and all(
            any(each["type"] == "Ready" and each["status"] == "True" for each in found)
            for found in conditions
        )

    kubectl.wait(ready, f"the pods of {component}")


@contextlib.contextmanager
def namespace_of(kubectl: Kubectl, word: str) -> Iterator[str]:
    """A new namespace, deleted with all that it holds at the end."""
    name = f"{word}-{uuid.uuid4().hex[:6]}"
    kubectl("create", "namespace", name)
    kubectl.wait(
        lambda: bool(kubectl("get", "serviceaccount", "default", "-n", name)), "a namespace's account"
    )
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@contextlib.contextmanager
def reading_of(
    kubectl: Kubectl, namespace: str, bucket: Bucket, nodes: tuple[str, ...], *, below: str = ""
) -> Iterator[Reading]:
    """A dataset of the bucket that is Bound, and a reader on each node that has read all, or that folder, once.

    Both are gone at the end, before what else the test has: the storage, the operator.
    """
    with bound_dataset(kubectl, namespace, bucket.secret(), bucket.dataset(), runtime()):
        pods = {f"reader-{node}": node for node in nodes}
        kubectl.apply(*(reader(pod, node, below=below) for pod, node in pods.items()), namespace=namespace)
        found = Reading(kubectl, namespace, tuple(pods), bucket.digest(below))
        found.begin()
        yield found


def parts_of(kubectl: Kubectl, namespace: str, component: str) -> list[dict[str, Any]]:
    """The pods of one kind of role."""
    selector = f"app.kubernetes.io/component={component}"
    return list(kubectl.get("-n", namespace, "pods", "-l", selector)["items"])


def metrics_of(kubectl: Kubectl, pod: dict[str, Any], port: int) -> dict[tuple[str, ...], float]:
    """What a pod tells Prometheus now: each sample by its name and the values of its labels."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    page = f"/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/metrics"
    families = text_string_to_metric_families(kubectl("get", "--raw", page))
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def as_list(*objects: dict[str, Any]) -> str:
    """What `kubectl create -f -` takes."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})

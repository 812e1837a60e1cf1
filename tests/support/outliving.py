"""Programs that hold files open and mapped, and all the ways in which a cluster takes away what serves them."""

from __future__ import annotations

import contextlib
import json
import random
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from charts import NAMESPACE, TEST_VALUES, Release
from datasets_on_kubernetes import (
    Bucket,
    Reading,
    await_ready,
    bound_dataset,
    parts_of,
    reader,
    runtime,
)
from installing import wait_until_ready

from headrace.testing.kubernetes.kubectl import Kubectl, KubectlError
from headrace.testing.s3_server import Credentials

DRIVER = "daemonset/headrace-csi"
MEMORY = "320Mi"
_OUT_OF_MEMORY = "out of memory"
_REPLACING = frozenset(("killed", "deleted", "evicted"))
WAYS = 4
"""How each file is read in a pass: see `_HOLD`."""

# Opens and maps all files once, and closes the descriptors of the maps. Then prints the digest of all files pass after
# pass, by each way in turn: held descriptors, shared maps, private maps, opened anew. Pages are given back before.
_HOLD = """
import ctypes, hashlib, mmap, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
MADV_DONTNEED = 4

def paths():
    for folder, folders, names in os.walk("/data"):
        folders.sort()
        for name in sorted(names):
            yield os.path.join(folder, name)

def map_of(path, flags):
    descriptor = os.open(path, os.O_RDONLY)
    size = os.fstat(descriptor).st_size
    address = libc.mmap(None, size, mmap.PROT_READ, flags, descriptor, 0)
    os.close(descriptor)
    assert address != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    return address, size

names = list(paths())
held = {path: os.open(path, os.O_RDONLY) for path in names}
shared = {path: map_of(path, mmap.MAP_SHARED) for path in names}
private = {path: map_of(path, mmap.MAP_PRIVATE) for path in names}

def by_descriptor(path):
    os.posix_fadvise(held[path], 0, 0, os.POSIX_FADV_DONTNEED)
    return os.pread(held[path], os.fstat(held[path]).st_size, 0)

def by_map(maps):
    def read(path):
        address, size = maps[path]
        assert libc.madvise(address, size, MADV_DONTNEED) == 0
        os.posix_fadvise(held[path], 0, 0, os.POSIX_FADV_DONTNEED)
        return ctypes.string_at(address, size)
    return read

def anew(path):
    with open(path, "rb", 0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return file.read()

while True:
    for read in (by_descriptor, by_map(shared), by_map(private), anew):
        whole = hashlib.sha256()
        for path in names:
            whole.update(os.path.relpath(path, "/data").encode())
            whole.update(read(path))
        print(whole.hexdigest(), flush=True)
    time.sleep(0.2)
"""

# Takes memory until the kernel has killed everything else of the container, and with its first process this one. The
# process that asks for memory may be killed for it, so all others are made likelier victims first.
_TAKE_ALL_MEMORY = """
import os, pathlib
for each in pathlib.Path("/proc").glob("[0-9]*"):
    if int(each.name) != os.getpid():
        (each / "oom_score_adj").write_text("1000")
taken = []
while True:
    taken.append(b"x" * (4 << 20))
"""


@dataclass(frozen=True)
class Holding:
    """A dataset whose files programs on some nodes hold, and the ways in which it loses what serves it."""

    kubectl: Kubectl
    release: Release
    bucket: Bucket
    reading: Reading
    tags: tuple[str, str]
    """Of the engine's image, and of another version of it that the nodes have."""

    def ways(self) -> dict[str, Callable[[], None]]:
        """All of them, by name. Each returns once what it took away is there again."""
        return {
            _OUT_OF_MEMORY: self.run_out_of_memory,
            "killed": lambda: self._replace_mounts("--grace-period=0", "--force"),
            "deleted": self._replace_mounts,
            "evicted": self.evict_mounts,
            "driver upgraded": self.upgrade_driver,
            "driver killed": self.kill_driver,
            "engine upgraded": self.upgrade_engine,
            "secret rotated": self.rotate_secret,
            "node drained": self.drain_node,
            "scaled in": self.scale_in,
        }

    def shuffled_ways(self, seed: int, among: Collection[str] = ()) -> list[str]:
        """The names of all of them, or of some, in an order of chance.

        Kubelet waits longer before each start of a pod that runs out of memory again and again. So another pod takes
        its place before the next time: one of the ways that replace it comes later in the same round.
        """
        chosen = among or self.ways()
        names = random.Random(seed).sample(sorted(chosen), len(chosen))
        if _OUT_OF_MEMORY in names and not {*names[names.index(_OUT_OF_MEMORY) :]} & _REPLACING:
            names.remove(_OUT_OF_MEMORY)
            names.insert(0, _OUT_OF_MEMORY)
        return names

    def read_on(self) -> None:
        """Returns when each program has read everything in each way once more, at least."""
        self.reading.go_on(WAYS + 1)

    def run_out_of_memory(self) -> None:
        """The mounts' containers go over their limit; kubelet starts them again where they were."""
        for pod in self._mounts():
            self._run_out_of_memory(pod["metadata"]["name"], _restarts(pod))
        await_ready(self.kubectl, self.reading.namespace, "mount")

    def _run_out_of_memory(self, name: str, before: int) -> None:
        words = ("-n", self.reading.namespace, "exec", name, "--", "python3", "-c", _TAKE_ALL_MEMORY)
        # It ends with its container.
        with pytest.raises(KubectlError, match="exit code 137"):
            self.kubectl(*words)
        self.kubectl.wait(lambda: self._was_out_of_memory(name, before), f"{name} out of memory")

    def evict_mounts(self) -> None:
        """As a drained node does it."""
        self._replaced(self._evict)

    def upgrade_driver(self) -> None:
        """To the other image, node after node."""
        shown = self.kubectl.get("-n", NAMESPACE, DRIVER)["spec"]["template"]["spec"]["containers"]
        repository, _, tag = shown[0]["image"].rpartition(":")
        (other,) = {*self.tags} - {tag}
        self.kubectl("-n", NAMESPACE, "set", "image", DRIVER, f"*={repository}:{other}")
        wait_until_ready(self.kubectl, DRIVER)

    def kill_driver(self) -> None:
        """On all nodes at once."""
        selector = ("-l", "app.kubernetes.io/component=csi")
        self.kubectl("-n", NAMESPACE, "delete", "pods", *selector, "--grace-period=0", "--force")
        await_ready(self.kubectl, NAMESPACE, "csi")

    def upgrade_engine(self) -> None:
        """To the other image: driver, master, workers and mounts, in the operator's order."""
        (other,) = {*self.tags} - {_tag(self._mounts()[0])}
        engine = {"engine": {"tag": other, "pullPolicy": "Never"}}
        self.release.install({"image": TEST_VALUES["image"] | engine})
        wait_until_ready(self.kubectl, DRIVER)
        for component in ("master", "worker", "mount"):
            self.kubectl.wait(
                lambda: {_tag(pod) for pod in self._pods(component)} == {other},  # noqa: B023
                f"each {component} of the image {other}",
            )
            await_ready(self.kubectl, self.reading.namespace, component)

    def rotate_secret(self) -> None:
        """Other keys of the storage: the workers are replaced, as their files with keys are others."""
        before = self._uids("worker")
        self.bucket.server.give_keys(Credentials("AKIA" + uuid.uuid4().hex.upper()[:16], uuid.uuid4().hex))
        self.kubectl.apply(self.bucket.secret(), namespace=self.reading.namespace)
        self.kubectl.wait(
            lambda: len(now := self._uids("worker")) == len(before) and not now & before,
            "workers with the new keys",
        )
        await_ready(self.kubectl, self.reading.namespace, "worker")

    def drain_node(self) -> None:
        """All that serves the dataset on the first node leaves it, but for its mount, which belongs there."""
        node = self._mounts()[0]["spec"]["nodeName"]
        what = (
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--pod-selector=app.kubernetes.io/name=headrace",
        )
        try:
            self.kubectl("drain", node, *what, "--timeout=300s", timeout_s=330)
            self.read_on()
        finally:
            self.kubectl("uncordon", node)
        for component in ("master", "worker", "mount"):
            await_ready(self.kubectl, self.reading.namespace, component)

    def scale_in(self) -> None:
        """To one worker, and to two again."""
        for replicas in (1, 2):
            words = ("scale", "alluxioruntime", "imagenet", f"--replicas={replicas}")
            self.kubectl("-n", self.reading.namespace, *words)
            self.kubectl.wait(
                lambda: len(self._pods("worker")) == replicas,  # noqa: B023
                f"{replicas} workers",
            )
            await_ready(self.kubectl, self.reading.namespace, "worker")
            self.read_on()

    def _replace_mounts(self, *how: str) -> None:
        self._replaced(lambda name: self.kubectl("-n", self.reading.namespace, "delete", "pod", name, *how))

    def _replaced(self, take_away: Callable[[str], object]) -> None:
        before = self._uids("mount")
        for pod in self._mounts():
            take_away(pod["metadata"]["name"])
        self.kubectl.wait(
            lambda: len(now := self._uids("mount")) == len(before) and not now & before,
            "other mounts",
        )
        await_ready(self.kubectl, self.reading.namespace, "mount")

    def _evict(self, name: str) -> None:
        metadata = {"name": name, "namespace": self.reading.namespace}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path = f"/api/v1/namespaces/{self.reading.namespace}/pods/{name}/eviction"
        self.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    def _mounts(self) -> list[dict[str, Any]]:
        return self._pods("mount")

    def _pods(self, component: str) -> list[dict[str, Any]]:
        return parts_of(self.kubectl, self.reading.namespace, component)

    def _uids(self, component: str) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self._pods(component)}

    def _was_out_of_memory(self, name: str, before: int) -> bool:
        pod = self.kubectl.get("-n", self.reading.namespace, "pod", name)
        if _restarts(pod) <= before:
            return False
        (status,) = pod["status"]["containerStatuses"]
        assert status["lastState"]["terminated"]["reason"] == "OOMKilled", status
        return True


def _tag(pod: dict[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["image"]).rpartition(":")[2]


def _restarts(pod: dict[str, Any]) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", []))


@contextlib.contextmanager
def holding_of(
    kubectl: Kubectl,
    release: Release,
    namespace: str,
    bucket: Bucket,
    nodes: tuple[str, ...],
    tags: tuple[str, str],
) -> Iterator[Holding]:
    """A dataset whose mounts have a limit of memory, and on each node a program that has read all in each way once."""
    # Requests equal to limits (Guaranteed): of other pods the kernel prefers every process as a victim.
    limits = {"memory": MEMORY, "cpu": "500m"}
    limited = {"resources": {"limits": limits, "requests": limits}}
    with bound_dataset(kubectl, namespace, bucket.secret(), bucket.dataset(), runtime(fuse=limited)):
        pods = {f"holder-{node}": node for node in nodes}
        kubectl.apply(*(reader(pod, node, program=_HOLD) for pod, node in pods.items()), namespace=namespace)
        reading = Reading(kubectl, namespace, tuple(pods), bucket.digest())
        reading.begin()
        made = Holding(kubectl, release, bucket, reading, tags)
        made.read_on()
        yield made

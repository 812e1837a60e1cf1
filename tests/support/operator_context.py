"""The operator on a cluster in memory: its looks are taken as its attention would have them taken."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest
import yaml
from memory_cluster import MemoryCluster
from memory_controllers import copied
from memory_masters import MemoryMasters, WorldMasters
from planned import GPU, SEED

from headrace.kube.client import KubeClient
from headrace.operator import observer
from headrace.operator.dataset_world import ClusterBackend
from headrace.operator.mirror import Mirror
from headrace.operator.operations.job_drivers import work_of
from headrace.operator.reference_index import affected_datasets
from headrace.operator.reservations import Reservations
from headrace.operator.role_states import AllRoleStates
from headrace.operator.settings import Image, OperatorSettings
from headrace.operator.status_writer import StatusWriter
from headrace.reconcile.dataset_reconciler import DatasetReconciler

SETTINGS = OperatorSettings(
    namespace="headrace-system", identity="operator-1", engine=Image("headrace/engine:1")
)
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: mysecret, namespace: default}
data: {fs.oss.accessKeyId: QUtJRA==, fs.oss.accessKeySecret: aHVudGVyMg==}
"""


class OperatorWorld:
    """A cluster with a Secret and nodes, and one operator. `reconcile` is a look at each dataset that asked for one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nodes: int = 4) -> None:
        self.cluster = MemoryCluster()
        self.now: datetime | None = None
        self.masters = MemoryMasters(self.cluster)
        self.wanted: set[tuple[str, str]] = set()
        self.restart()
        monkeypatch.setattr(observer, "_told", self.masters.told)
        for number in range(1, nodes + 1):
            self.cluster.add_node(f"node-{number}", GPU)
        self.declare(SECRET)

    def restart(self, key: bytes = b"key") -> None:
        """Another operator takes over: it lists everything, and knows nothing else. One that was installed anew has
        another key, too.
        """
        self.mirror = Mirror(key)
        for (kind, *_), content in self.cluster.objects.items():
            self.mirror.put(kind, copied(content))
        self.cluster.changes.clear()
        client = cast("KubeClient", self.cluster)
        masters = WorldMasters(client, self.mirror, self.masters)
        self.role_states = AllRoleStates()
        self.reservations = Reservations(self.mirror, SETTINGS.namespace)
        self.backend = ClusterBackend(
            client=client,
            masters=masters,
            mirror=self.mirror,
            settings=SETTINGS,
            role_states=self.role_states,
            reservations=self.reservations,
            status_writer=StatusWriter(client, self.mirror, "operator-1"),
        )
        self.work = work_of(client, self.mirror, masters)
        log = logging.getLogger("headrace.operator")
        self.reconciler = DatasetReconciler(
            self.backend, self.work, log, clock=lambda: self.now or datetime.now(UTC)
        )

    def take_over(self, other: MemoryCluster) -> None:
        """Goes on with a copy of that cluster."""
        self.cluster.objects, self.cluster.applied = copied((other.objects, other.applied))
        self.cluster._versions = copy.copy(other._versions)
        self.restart()

    def declare(self, text: str = SEED) -> None:
        """What a person applies."""
        for content in yaml.safe_load_all(text):
            key = (
                content["kind"],
                content["metadata"].get("namespace", "default"),
                content["metadata"]["name"],
            )
            if key in self.cluster.objects:
                known = self.cluster.objects[key]
                self.cluster._store(key, {**known, "spec": content["spec"]})
            else:
                self.cluster.add(content)

    def use(self, name: str, node: str, claim: str = "imagenet") -> None:
        """A pod that reads the dataset begins to run."""
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
        metadata = {"name": name, "namespace": "default", "labels": {}}
        spec = {"nodeName": node, "volumes": [volume]}
        self.cluster.add(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}
        )

    def leave(self, name: str) -> None:
        """It ends."""
        self.cluster.remove(("Pod", "default", name))

    def sync(self) -> set[tuple[str, str]]:
        """The watches tell what has changed; who is concerned."""
        found: set[tuple[str, str]] = set()
        changes, self.cluster.changes = self.cluster.changes, []
        for kind, what, content in changes:
            if kind == "Event":
                continue
            name = (content["metadata"].get("namespace") or "", content["metadata"]["name"])
            if what == "DELETED":
                before, now = self.mirror.drop(kind, name), None
            else:
                before, now = self.mirror.put(kind, content)
            if before != now:
                found |= affected_datasets(self.mirror, kind, before, now)
        return found

    def reconcile(self, *keys: tuple[str, str]) -> None:
        """The cluster goes on for a moment, and then every dataset is looked at (or these)."""
        self.cluster.turn()
        self.look_only(*keys)

    def look_only(self, *keys: tuple[str, str]) -> None:
        """The looks alone: the cluster stands still."""
        self.wanted |= self.sync()
        wanted, self.wanted = self.wanted | self._all(), set()
        for key in keys or sorted(wanted):
            asyncio.run(self._reconcile_one(key))

    async def _reconcile_one(self, key: tuple[str, str]) -> None:
        await self.reconciler.reconcile(*key)
        # What the look began is over before the cluster goes on.
        await asyncio.gather(*self.work._starting.values())

    def settle(self, most: int = 60, reconcile: Callable[[], None] | None = None) -> None:
        """Looks until one of them writes nothing, and nothing in the cluster moves."""
        for _ in range(most):
            before = len(self.cluster.writes)
            (reconcile or self.reconcile)()
            if len(self.cluster.writes) == before and not self.cluster.changes:
                return
        raise AssertionError(f"not settled: {self.cluster.writes[-12:]}")

    def get(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """An object of the cluster."""
        return self.cluster.objects.get((kind, namespace, name))

    def pods_of_mounts(self) -> set[tuple[str, str]]:
        """Dataset and node of every mount."""
        return {
            (pod["metadata"]["name"].partition("-fuse-x")[0], pod["spec"]["nodeName"])
            for pod in self.cluster.of("Pod")
            if "-fuse-x" in pod["metadata"]["name"]
        }

    def pods(self) -> dict[str, str]:
        """The names of pods and their nodes, but for the last part of a mount's name."""
        found = {}
        for pod in self.cluster.of("Pod"):
            name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
            found[f"fuse@{node}" if "-fuse-x" in name else name] = node
        return found

    def _all(self) -> set[tuple[str, str]]:
        kinds = ("Dataset", "AlluxioRuntime", "JindoRuntime", "ConfigMap")
        return {
            key
            for kind in kinds
            for content in self.cluster.of(kind)
            for key in affected_datasets(self.mirror, kind, None, content)
        }

"""All that happens around an operator: people, machines, an API server with faults; and what must hold of it."""

from __future__ import annotations

import base64
import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from operator_context import SECRET, OperatorWorld
from planned import GPU, SEED

from headrace.errors import BusyError
from headrace.kube.faults import ConflictError

DATASET, RUNTIME = yaml.safe_load_all(SEED)
REFERENCES = ("part", "taken")
"""Datasets that are read through the other one. Where the volume of the second would be, a person's is."""
STRANGER = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "taken"},
    "spec": {
        "csi": {"driver": "fuse.csi.fluid.io", "volumeAttributes": {"dataset": "default/imagenet"}},
        "claimRef": {"namespace": "default", "name": "taken"},
    },
}
"""A volume of the same driver that leads to the same data: a person made it."""
STRANGERS = ("PersistentVolume", "", "taken")
SIZE = "pvc.fluid.io/resources.requests.storage"


def _reference(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"mounts": [{"mountPoint": "dataset://default/imagenet"}]},
    }


class Died(BaseException):
    """The operator's process is killed within a call."""


class Model:
    """A world with three datasets, two of which refer to the first; every step of it may be taken at any time.

    It begins with all of them served and read. `begun` is such a world, whose cluster is taken over.
    """

    def __init__(self, patches: pytest.MonkeyPatch, begun: Model | None = None) -> None:
        self.world = OperatorWorld(patches)
        if begun is not None:
            self.world.take_over(begun.world.cluster)
        self.world.masters.hands_over = True
        self.world.now = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
        self.objects = self.world.cluster.objects
        self.replicas, self.keeps_off = 2, False
        if begun is None:
            self.world.cluster.add(STRANGER)
            for name in ("imagenet", *REFERENCES):
                self.create(name)
            self.world.settle(reconcile=self.world.reconcile)
            self.use("imagenet", 1)
            self.use("part", 2)
        self._stranger = copy.deepcopy(self.objects[STRANGERS])

    # What people do

    def create(self, name: str) -> None:
        """Declares it, where it is not there or was made invalid."""
        wanted = [_reference(name)] if name in REFERENCES else [DATASET, self._runtime]
        for content in wanted:
            key = (content["kind"], "default", name)
            if key not in self.objects:
                self.world.declare(yaml.safe_dump(content))
            elif "deletionTimestamp" not in self.objects[key]["metadata"]:
                self._store(key, spec=content["spec"])

    def delete(self, name: str) -> None:
        """Asks for the deletion of all of it."""
        for kind in ("Dataset", "JindoRuntime"):
            self._remove(kind, name)

    def delete_runtime(self, name: str) -> None:
        """Asks for the deletion of the runtime alone."""
        self._remove("JindoRuntime", name)

    def scale(self, number: int) -> None:
        """Asks for other workers."""
        self.replicas = number
        if ("JindoRuntime", "default", "imagenet") in self.objects:
            self._store(("JindoRuntime", "default", "imagenet"), spec=self._runtime["spec"])

    def keep_off(self, _: str) -> None:
        """The runtime wants mounts elsewhere, or anywhere."""
        self.keeps_off = not self.keeps_off
        self.scale(self.replicas)

    def force_away(self, name: str) -> None:
        """Takes the finalizer off as well."""
        key = ("Dataset", "default", name)
        if key in self.objects:
            self._store(key, metadata={**self.objects[key]["metadata"], "finalizers": []})
            self._remove("Dataset", name)

    def invalidate(self, name: str) -> None:
        """Writes what no model takes."""
        if ("Dataset", "default", name) in self.objects:
            self._store(("Dataset", "default", name), spec={"accessModes": ["ReadWriteMany"] * 2})

    def change_keys(self, number: int) -> None:
        """Other credentials."""
        value = base64.b64encode(str(number).encode()).decode()
        if ("Secret", "default", "mysecret") in self.objects:
            data = {"fs.oss.accessKeyId": value, "fs.oss.accessKeySecret": value}
            self._store(("Secret", "default", "mysecret"), data=data)
        else:
            self.world.declare(SECRET)

    def lose_keys(self, _: int) -> None:
        """No credentials."""
        self._remove("Secret", "mysecret")

    def harm_token(self, name: str) -> None:
        """Deletes a Secret that is the operator's."""
        self._remove("Secret", f"{name}-headrace-token")

    def resize(self, number: int) -> None:
        """Another size of the volume."""
        key = ("Dataset", "default", "imagenet")
        if key in self.objects:
            metadata = {**self.objects[key]["metadata"], "annotations": {SIZE: f"{number}Ti"}}
            self._store(key, metadata=metadata)

    def use(self, name: str, number: int) -> None:
        """A program begins to read, where a mount is."""
        pod, node = f"train-{name}-{number}", f"node-{number}"
        claim = self.objects.get(("PersistentVolumeClaim", "default", name))
        usable = claim is not None and "deletionTimestamp" not in claim["metadata"]
        if usable and ("Pod", "default", pod) not in self.objects and self.world.cluster.is_up(node):
            self.world.use(pod, node, claim=name)

    def leave(self, name: str, number: int) -> None:
        """It ends."""
        self._remove("Pod", f"train-{name}-{number}")

    # What happens to machines, to the operator, and on the way to the API server

    def lose_node(self, number: int) -> None:
        """A machine is away."""
        self.world.cluster.add_node(f"node-{number}", GPU, ready=False)

    def find_node(self, number: int) -> None:
        """It is back."""
        self.world.cluster.add_node(f"node-{number}", GPU)

    def kill_pod(self, number: int) -> None:
        """One of our pods is deleted by somebody."""
        ours = [
            key
            for key in self.objects
            if key[0] == "Pod" and key[2].startswith(("imagenet-", "part-", "taken-"))
        ]
        if ours:
            self.world.cluster.remove(sorted(ours)[number % len(ours)])

    def restart(self) -> None:
        """Another operator takes over."""
        self.world.restart()

    def die_at(self, number: int) -> None:
        """The operator dies within a call that is to come."""
        self.world.cluster.faults[number] = Died()

    def refuse_at(self, number: int) -> None:
        """A call that is to come fails."""
        self.world.cluster.faults[number] = BusyError.of("the API server has no time")

    def conflict_at(self, number: int) -> None:
        """Somebody was faster."""
        self.world.cluster.faults[number] = ConflictError.of("another one")

    def reconcile_late(self) -> None:
        """A look before the watches told what has changed."""
        kept, self.world.cluster.changes = self.world.cluster.changes, []
        self._guarded(self.world.look_only)
        self.world.cluster.changes = [*kept, *self.world.cluster.changes]

    def reconcile(self) -> None:
        """Time goes on, and the operator looks at everything; no mount is taken from a pod that reads."""
        self.world.now = (self.world.now or datetime.now(UTC)) + timedelta(seconds=5)
        self.world.cluster.turn()
        before = self._read_through()
        self._guarded(self.world.look_only)
        self.world.cluster.turn()
        lost = before - self._read_through()
        assert not lost, f"mounts were taken from pods that read: {lost}"
        swept = {
            pod["spec"]["nodeName"]
            for pod in self.world.cluster.of("Pod")
            if pod["metadata"]["namespace"] == "headrace-system"
            and any(pod["metadata"]["labels"]["headrace.io/dataset"] == name for name, _ in before)
        }
        assert not swept & {node for _, node in before}, "a node is swept where somebody reads"
        assert self.objects[STRANGERS] == self._stranger, "another's volume was touched"

    # What must hold

    def calm_down(self) -> None:
        """All is well again."""
        self.world.cluster.faults.clear()
        for number in range(1, 5):
            self.find_node(number)
        if ("Secret", "default", "mysecret") not in self.objects:
            self.world.declare(SECRET)
        self.world.settle(most=80, reconcile=self.reconcile)

    def check_settled(self) -> None:
        """What is declared and can be served is served, and an operator that knows nothing finds nothing to do."""
        self.world.restart()
        begun = len(self.world.cluster.writes)
        self.reconcile()
        self.reconcile()
        writes = [each for each in self.world.cluster.writes[begun:] if each[1] != "Event"]
        assert writes == [], "a fresh operator would have it otherwise"
        if self._is_declared("Dataset", "imagenet") and self._is_declared("JindoRuntime", "imagenet"):
            assert self.objects["Dataset", "default", "imagenet"]["status"]["phase"] == "Bound"
            workers = [name for name in self.world.pods() if name.startswith("imagenet-worker-")]
            assert len(workers) == self.replicas
            assert ("PersistentVolumeClaim", "default", "imagenet") in self.objects

    def take_all_away(self) -> None:
        """Nobody reads any more, and everything is to be deleted."""
        for key in [key for key in self.objects if key[0] == "Pod" and key[2].startswith("train-")]:
            self.world.cluster.remove(key)
        for name in (*REFERENCES, "imagenet"):
            self.delete(name)
        self.world.settle(most=80, reconcile=self.reconcile)

    def check_nothing_is_left(self) -> None:
        """But what was there before, and what was said."""
        left = sorted(key for key in self.objects if key[0] not in ("Node", "Event"))
        assert left == [STRANGERS, ("Secret", "default", "mysecret")]
        assert self.world.role_states == type(self.world.role_states)()

    @property
    def _runtime(self) -> dict[str, Any]:
        fuse = {"fuse": {"nodeSelector": {"zone": "elsewhere"}}} if self.keeps_off else {}
        return {**RUNTIME, "spec": {**RUNTIME["spec"], "replicas": self.replicas, **fuse}}

    def _is_declared(self, kind: str, name: str) -> bool:
        content = self.objects.get((kind, "default", name))
        if content is None or "deletionTimestamp" in content["metadata"]:
            return False
        return len(content["spec"].get("accessModes", ())) < 2

    def _read_through(self) -> set[tuple[str, str]]:
        """Dataset and node of every mount that a program reads through, on machines that answer."""
        mounts = self.world.pods_of_mounts()
        found = set()
        for pod in self.world.cluster.of("Pod"):
            for volume in pod["spec"].get("volumes") or ():
                name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                place = (name, pod["spec"]["nodeName"])
                if pod["metadata"]["name"].startswith("train-") and place in mounts:
                    found.add(place)
        return found

    def _guarded(self, reconcile: Any) -> None:
        try:
            reconcile()
        except Died:
            self.world.restart()

    def _store(self, key: tuple[str, str, str], **fields: Any) -> None:
        self.world.cluster._store(key, {**self.objects[key], **copy.deepcopy(fields)})

    def _remove(self, kind: str, name: str) -> None:
        if (kind, "default", name) in self.objects:
            self.world.cluster.remove((kind, "default", name))

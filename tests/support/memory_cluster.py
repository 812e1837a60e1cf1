"""A small Kubernetes in memory, for the operator: objects by kind, the controllers of sets, a scheduler, nodes.

It keeps what decides over the operator's ways: versions and identities of objects, finalizers, owners, the status as a
part of its own, fields that are applied and taken back, pods of lost nodes that never end, and a mirror that lags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_controllers import PROTECTED, MemoryControllers, copied, merged, now

from headrace.errors import BusyError, MissingFileError, RefusedError
from headrace.kube.faults import ConflictError
from headrace.merge_patch import difference

Content = dict[str, Any]


class MemoryCluster(MemoryControllers):
    """Has the calls of a `KubeClient` that the operator makes. `changes` are what a watch would tell."""

    def __init__(self) -> None:
        super().__init__()
        self.applied: dict[tuple[str, str, str], Content] = {}
        self.changes: list[tuple[str, str, Content]] = []
        self.writes: list[tuple[str, str, str]] = []
        self.refused: set[tuple[str, str]] = set()
        """What is answered with "forbidden": verb and kind."""
        self.busy: set[tuple[str, str]] = set()
        """What is answered with "too many requests"."""
        self.faults: dict[int, BaseException] = {}
        """What comes of the calls to be, counted from the next one."""

    # What the operator calls

    async def get(self, kind: str, namespace: str | None, name: str) -> Content | None:
        found = self.objects.get((kind, namespace or "", name))
        return copied(found)

    async def list(self, kind: str, namespace: str) -> list[Content]:
        return copied([each for each in self.of(kind) if each["metadata"].get("namespace") == namespace])

    async def create(self, content: Content) -> Content:
        self._note("create", content["kind"], content["metadata"]["name"])
        if self._key(content) in self.objects:
            raise ConflictError.of("there is one")
        return self.add(content)

    async def replace(self, content: Content) -> Content:
        key, version = self._key(content), content["metadata"]["resourceVersion"]
        if version != self.objects[key]["metadata"]["resourceVersion"]:
            raise ConflictError.of("another version")
        return self._store(key, copied(content))

    async def apply(self, content: Content) -> Content:
        self._note("apply", content["kind"], content["metadata"]["name"])
        key = self._key(content)
        if key not in self.objects:
            made = self.add(content)
            self.applied[key] = copied(content)
            return made
        said = difference(self.applied.get(key, {}), content)
        self.applied[key] = copied(content)
        return self._store(key, merged(self.objects[key], said))

    async def patch(
        self, kind: str, namespace: str | None, name: str, body: Content, subresource: str = ""
    ) -> Content:
        self._note("patch", kind, name)
        key = (kind, namespace or "", name)
        known = self.objects.get(key)
        if known is None:
            raise MissingFileError.of("there is none")
        asked = body.get("metadata") or {}
        for field in ("resourceVersion", "uid"):
            if field in asked and asked[field] != known["metadata"][field]:
                raise ConflictError.of(f"another {field}")
        part = {each: body[each] for each in body if (each == "status") is (subresource == "status")}
        return self._store(key, merged(known, part))

    async def delete(
        self, kind: str, namespace: str | None, name: str, *, uid: str = "", grace_s: int | None = None
    ) -> None:
        self._note(f"delete({grace_s})" if kind == "Pod" else "delete", kind, name)
        key = (kind, namespace or "", name)
        known = self.objects.get(key)
        if known is None:
            return
        if uid and known["metadata"]["uid"] != uid:
            raise ConflictError.of("another one")
        node = known["spec"].get("nodeName") if kind == "Pod" else None
        if node and grace_s != 0 and not self.is_up(node):
            self._store(key, merged(known, {"metadata": {"deletionTimestamp": now()}}))
            return
        self.remove(key)

    # What people do

    def add(self, content: Content) -> Content:
        """A new object, with all that the server gives."""
        metadata = {
            "namespace": "default",
            "creationTimestamp": now(),
            **content["metadata"],
            "uid": f"uid-{next(self._versions)}",
        }
        whole = {**copied(content), "metadata": metadata}
        if content["kind"] in PROTECTED:
            metadata["finalizers"] = [*metadata.get("finalizers", ()), PROTECTED[content["kind"]]]
        if content["kind"] in ("Node", "PersistentVolume"):
            del metadata["namespace"]
        if content["kind"] == "Service" and content["spec"].get("clusterIP") != "None":
            whole["spec"]["clusterIP"] = "10.96.0.7"
        return self._store(self._key(whole), whole)

    def remove(self, key: tuple[str, str, str]) -> None:
        """Deletes an object; one with finalizers only asks for it. What it owns goes with it."""
        known = self.objects[key]
        if known["metadata"].get("finalizers"):
            if not known["metadata"].get("deletionTimestamp"):
                self._store(key, merged(known, {"metadata": {"deletionTimestamp": now()}}))
            return
        del self.objects[key]
        self.applied.pop(key, None)
        self.changes.append((key[0], "DELETED", known))
        for other in [other for other, each in self.objects.items() if self._owned_by(each, known)]:
            if other in self.objects:
                self.remove(other)

    def add_node(self, name: str, labels: Mapping[str, str], *, ready: bool = True) -> None:
        """A machine that joins, or whose state changes."""
        absence = [
            {"key": "node.kubernetes.io/unreachable", "effect": each} for each in ("NoSchedule", "NoExecute")
        ]
        content = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": dict(labels)},
            "spec": {"taints": [] if ready else absence},
            "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
        }
        key = ("Node", "", name)
        if key in self.objects:
            more = {"status": content["status"], "spec": content["spec"]}
            self._store(key, merged(self.objects[key], more))
        else:
            self.add(content)

    def evict(self, node: str) -> None:
        """The node was away for longer than pods wait for that, but for those that wait for ever."""
        for pod in self.of("Pod"):
            waits = {"operator": "Exists"} in (pod["spec"].get("tolerations") or ())
            if pod["spec"]["nodeName"] == node and not waits:
                self._store(self._key(pod), merged(pod, {"metadata": {"deletionTimestamp": now()}}))

    def of(self, kind: str) -> list[Content]:
        """All objects of a kind."""
        return [content for (each, *_), content in self.objects.items() if each == kind]

    def is_up(self, node: str) -> bool:
        """True for a machine whose kubelet answers."""
        known = self.objects.get(("Node", "", node))
        return known is not None and known["status"]["conditions"][0]["status"] == "True"

    # Storage

    def _store(self, key: tuple[str, str, str], content: Content) -> Content:
        content["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[key] = content
        self.changes.append((key[0], "MODIFIED", copied(content)))
        is_leaving = content["metadata"].get("deletionTimestamp") and key[0] != "Pod"
        if is_leaving and not content["metadata"].get("finalizers"):
            self.remove(key)
        return copied(content)

    def _note(self, verb: str, kind: str, name: str) -> None:
        fault = self.faults.pop(0, None)
        self.faults = {number - 1: each for number, each in self.faults.items()}
        if fault is not None:
            raise fault
        if (verb, kind) in self.refused:
            raise RefusedError.of(f"Kubernetes refuses to {verb} {kind} {name}: forbidden")
        if (verb, kind) in self.busy:
            raise BusyError.of(f"Kubernetes refuses to {verb} {kind} {name}: too many requests")
        self.writes.append((verb, kind, name))

    @staticmethod
    def _key(content: Content) -> tuple[str, str, str]:
        metadata = content["metadata"]
        space = "" if content["kind"] in ("Node", "PersistentVolume") else "default"
        return content["kind"], metadata.get("namespace") or space, metadata["name"]

    @staticmethod
    def _owned_by(content: Content, owner: Content) -> bool:
        owners = content["metadata"].get("ownerReferences") or ()
        return content["kind"] != "Pod" and any(each["uid"] == owner["metadata"]["uid"] for each in owners)

"""What controllers, scheduler and kubelets do in a cluster in memory: pods of sets and of Jobs, the ends of volumes."""

from __future__ import annotations

import itertools
import pickle
from datetime import UTC, datetime
from typing import Any

from headrace.merge_patch import patched

Content = dict[str, Any]

PROTECTED = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
}
"""Volumes stay while a claim has them, claims while a pod uses them."""


def now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def namespace_of(content: Content) -> str:
    return str(content["metadata"].get("namespace") or "default")


def copied(content: Any) -> Any:
    """A copy that shares nothing, made several times as fast as by `copy.deepcopy`."""
    return pickle.loads(pickle.dumps(content, pickle.HIGHEST_PROTOCOL))


def merged(target: Any, patch: Any) -> Any:
    """A merge patch applied."""
    return patched(target or {}, copied(patch))


class MemoryControllers:
    """The part of the cluster that moves by itself. Where objects are kept is the other one's."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Content] = {}
        self.job_pods: Content = {"phase": "Running", "podIP": "10.0.0.9"}
        """What pods of Jobs say of themselves."""
        self._versions = itertools.count(1)

    def turn(self) -> None:
        """Controllers, scheduler and kubelets do what they would do in a few seconds."""
        for kind in ("StatefulSet", "DaemonSet"):
            for content in self.of(kind):
                (self._turn_stateful if kind == "StatefulSet" else self._turn_daemon)(content)
        for job in self.of("Job"):
            self._turn_job(job)
        for pod in self.of("Pod"):
            owners = {(each["kind"], each["uid"]) for each in pod["metadata"].get("ownerReferences", ())}
            sets = {(each["kind"], each["metadata"]["uid"]) for each in self.of("StatefulSet")}
            sets |= {(each["kind"], each["metadata"]["uid"]) for each in self.of("DaemonSet")}
            sets |= {(each["kind"], each["metadata"]["uid"]) for each in self.of("Job")}
            if owners and not owners & sets and self._key(pod) in self.objects:
                self.remove(self._key(pod))
        for pod in self.of("Pod"):
            self._turn_pod(pod)
        for kind in ("PersistentVolumeClaim", "PersistentVolume"):
            for content in self.of(kind):
                self._turn_storage(kind, content)

    def _turn_storage(self, kind: str, content: Content) -> None:
        held = self._used(content) if kind == "PersistentVolumeClaim" else self._bound(content)
        if content["metadata"].get("deletionTimestamp") and not held:
            left = [each for each in content["metadata"]["finalizers"] if each != PROTECTED[kind]]
            self._store(self._key(content), merged(content, {"metadata": {"finalizers": left}}))

    def _used(self, claim: Content) -> bool:
        name = {"claimName": claim["metadata"]["name"]}
        volumes = (each for pod in self.of("Pod") for each in pod["spec"].get("volumes") or ())
        return any(each.get("persistentVolumeClaim") == name for each in volumes)

    def _bound(self, volume: Content) -> bool:
        bound = volume["spec"].get("claimRef") or {}
        key = ("PersistentVolumeClaim", bound.get("namespace") or "", bound.get("name") or "")
        return key in self.objects

    def _turn_stateful(self, content: Content) -> None:
        name, wanted = content["metadata"]["name"], content["spec"]["replicas"]
        for number in range(wanted):
            if ("Pod", namespace_of(content), f"{name}-{number}") not in self.objects:
                self._add_pod(content, f"{name}-{number}", "")
        for pod in self.of("Pod"):
            stem, _, number = pod["metadata"]["name"].rpartition("-")
            if stem == name and int(number) >= wanted:
                self._end_pod(pod)

    def _turn_daemon(self, content: Content) -> None:
        name = content["metadata"]["name"]
        allowed = self._allowed(content["spec"]["template"]["spec"])
        there = {}
        for pod in self.of("Pod"):
            if pod["metadata"]["name"].startswith(f"{name}-x"):
                there[pod["spec"]["nodeName"]] = pod
        for node in allowed - set(there):
            self._add_pod(content, f"{name}-x{next(self._versions)}", node)
        for node, pod in there.items():
            if node not in allowed:
                self._end_pod(pod)

    def _turn_job(self, job: Content) -> None:
        name = job["metadata"]["name"]
        mine = [pod for pod in self.of("Pod") if pod["metadata"]["labels"].get("job-name") == name]
        if not mine:
            self._add_pod(job, f"{name}-x{next(self._versions)}", "")
            pod = next(reversed(self.objects.values()))
            pod["metadata"]["labels"]["job-name"] = name
        phases = {(pod.get("status") or {}).get("phase") for pod in mine}
        ended = phases & {"Succeeded", "Failed"}
        if ended and not (job.get("status") or {}).get("conditions"):
            kind = "Complete" if "Succeeded" in ended else "Failed"
            done = {"type": kind, "status": "True", "lastTransitionTime": now()}
            self._store(self._key(job), {**job, "status": {"conditions": [done]}})

    def _end_pod(self, pod: Content) -> None:
        if self.is_up(pod["spec"]["nodeName"]) or not pod["spec"]["nodeName"]:
            self.remove(self._key(pod))

    def _add_pod(self, owner: Content, name: str, node: str) -> None:
        template = copied(owner["spec"]["template"])
        owners = [{"kind": owner["kind"], "uid": owner["metadata"]["uid"]}]
        place = {"name": name, "namespace": namespace_of(owner)}
        metadata = {**template["metadata"], **place, "ownerReferences": owners}
        spec = {**template["spec"], "nodeName": node}
        self.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}})

    def _turn_pod(self, pod: Content) -> None:
        if not pod["spec"]["nodeName"] and (free := self._free(pod)):
            pod = self._store(self._key(pod), merged(pod, {"spec": {"nodeName": min(free)}}))
        node = pod["spec"]["nodeName"]
        if not node:
            return
        swept = pod["metadata"]["labels"].get("app.kubernetes.io/component") == "sweep"
        ready = "True" if self.is_up(node) else "False"
        status = {
            "phase": "Succeeded" if swept and ready == "True" else "Running",
            "conditions": [{"type": "Ready", "status": ready}],
        }
        if pod["metadata"]["labels"].get("job-name"):
            # A pod that has ended says no more.
            has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            status = pod["status"] if has_ended else copied(self.job_pods)
        if pod.get("status") != status:
            self._store(self._key(pod), {**pod, "status": status})

    def _free(self, pod: Content) -> set[str]:
        spec = pod["spec"]
        taken = set()
        for rule in spec.get("affinity", {}).get("podAntiAffinity", {}).values():
            wanted = rule[0]["labelSelector"]["matchLabels"].items()
            taken = {
                other["spec"]["nodeName"]
                for other in self.of("Pod")
                if wanted <= other["metadata"]["labels"].items()
            }
        return {node for node in self._allowed(spec) - taken if self.is_up(node)}

    def _allowed(self, spec: Content) -> set[str]:
        names = {node["metadata"]["name"] for node in self.of("Node")}
        affinity = spec.get("affinity", {}).get("nodeAffinity")
        if not affinity:
            return names
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        return names & {term["matchFields"][0]["values"][0] for term in terms if "matchFields" in term}

    def of(self, kind: str) -> list[Content]:
        """All objects of a kind."""
        raise NotImplementedError

    def is_up(self, node: str) -> bool:
        """True for a machine whose kubelet answers."""
        raise NotImplementedError

    def add(self, content: Content) -> Content:
        """A new object."""
        raise NotImplementedError

    def remove(self, key: tuple[str, str, str]) -> None:
        """Deletes an object."""
        raise NotImplementedError

    def _store(self, key: tuple[str, str, str], content: Content) -> Content:
        raise NotImplementedError

    @staticmethod
    def _key(content: Content) -> tuple[str, str, str]:
        raise NotImplementedError

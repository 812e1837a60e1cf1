"""The place of each kind of object in the API: its path, and whether it lives in a namespace."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api.kinds import KINDS
from headrace.api.names import GROUP, VERSION


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API server serves it. `group` is empty for the core."""

    kind: str
    plural: str
    group: str
    version: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """The path of an object, or of all objects without a name; of all namespaces without a namespace."""
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        parts += ["namespaces", namespace] if self.namespaced and namespace else []
        parts += [each for each in (self.plural, name, subresource) if each]
        return "/".join(parts)


_OTHERS = (
    Resource("Pod", "pods", "", "v1"),
    Resource("Service", "services", "", "v1"),
    Resource("Event", "events", "", "v1"),
    Resource("Namespace", "namespaces", "", "v1", namespaced=False),
    Resource("Node", "nodes", "", "v1", namespaced=False),
    Resource("StatefulSet", "statefulsets", "apps", "v1"),
    Resource("DaemonSet", "daemonsets", "apps", "v1"),
    Resource("Deployment", "deployments", "apps", "v1"),
    Resource("Job", "jobs", "batch", "v1"),
    Resource("Lease", "leases", "coordination.k8s.io", "v1"),
    Resource("PriorityClass", "priorityclasses", "scheduling.k8s.io", "v1", namespaced=False),
    Resource("StorageClass", "storageclasses", "storage.k8s.io", "v1", namespaced=False),
    Resource("MPIJob", "mpijobs", "kubeflow.org", "v2beta1"),
    Resource("PyTorchJob", "pytorchjobs", "kubeflow.org", "v1"),
    Resource("TFJob", "tfjobs", "kubeflow.org", "v1"),
    Resource(
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "admissionregistration.k8s.io",
        "v1",
        namespaced=False,
    ),
    Resource(
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "admissionregistration.k8s.io",
        "v1",
        namespaced=False,
    ),
    Resource(
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "apiextensions.k8s.io",
        "v1",
        namespaced=False,
    ),
)

RESOURCES: dict[str, Resource] = {
    **{
        kind.name: Resource(
            kind.name,
            kind.plural,
            "" if kind.is_core else GROUP,
            "v1" if kind.is_core else VERSION,
            kind.namespaced,
        )
        for kind in KINDS.values()
    },
    **{each.kind: each for each in _OTHERS},
}
"""By kind: those that people declare, those that are made of them, and the training jobs of Kubeflow.

A cluster may serve another version of a kind: `headrace.kube.discovery` finds out which.
"""

"""Why a pod was evicted, preempted or lost, as Kubernetes notes it on the pod. Pure.

The condition DisruptionTarget and its reasons: https://kubernetes.io/docs/concepts/workloads/pods/disruptions
"""

from __future__ import annotations

from typing import Any

from headrace.kubeflow.names import Content

_WORDS = {
    "PreemptionByScheduler": "a pod of higher priority took its place",
    "DeletionByTaintManager": "{node} is away, or lets nothing run any more, and Kubernetes takes the pod away",
    "EvictionByEvictionAPI": "it was evicted, as when {node} is drained",
    "DeletionByPodGC": "{node} is gone",
    "TerminationByKubelet": "{node} ended it, to shut down or since it ran short of something",
}


def disruption_of(pod: Content) -> str:
    """Why Kubernetes ends or ended the pod, for a person; empty when it does not."""
    condition = _condition(pod, "DisruptionTarget")
    if condition.get("status") != "True":
        return ""
    words = _WORDS.get(str(condition.get("reason")))
    if words is None:
        return f"Kubernetes ended it: {condition.get('message') or condition.get('reason') or 'nothing says why'}"
    return words.format(node=_node(pod))


def silence_of(pod: Content) -> str:
    """That its node does not answer, for a pod of which nothing newer is known than that it runs; else empty.

    Kubernetes marks the pods of a silent node as not ready, and leaves alone what the node said of containers.
    """
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    is_marked = _condition(pod, "Ready").get("status") == "False"
    runs = (
        status.get("phase") == "Running"
        and bool(containers)
        and all(each.get("ready") for each in containers)
    )
    return f"{_node(pod)} does not answer" if is_marked and runs else ""


def _condition(pod: Content, kind: str) -> dict[str, Any]:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def _node(pod: Content) -> str:
    name = (pod.get("spec") or {}).get("nodeName")
    return f"its node {name}" if name else "its node"

"""The common parts of the Jobs of operations: name, labels, owner, and when a pod is tried again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.api.kinds import Operation
from headrace.operator.rendering.confining import confined
from headrace.operator.rendering.naming import COMPONENT_LABEL, JOB, OPERATION_LABEL, Names
from headrace.operator.rendering.render_context import RenderContext

Content = dict[str, Any]

LAST_WORD = "/dev/termination-log"
"""Where a container writes what kubelet keeps of its end."""

TRIES = 6
"""How often a pod of ours is tried again after an end that was no answer: a kill, no memory."""

_KILLED = (130, 134, 135, 137, 139, 143)
_STEM_LETTERS = 30


@dataclass(frozen=True, slots=True)
class JobPod:
    """The pod of a Job: as Kubernetes has it, and what stands beside it."""

    spec: Content
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    tries: int = 0
    is_ours: bool = True
    """True for a program of Headrace, whose exit codes are known: an answer is final, a kill is not."""


def stem_of(operation: Operation) -> str:
    """The stem of the file names of an operation's Jobs: readable, unique, and short enough with a run behind it."""
    digest = hashlib.sha256((operation.metadata.uid or "").encode()).hexdigest()[:8]
    kind = operation.kind.removeprefix("Data").lower()
    return f"{operation.name[:_STEM_LETTERS].rstrip('-.').replace('.', '-')}-{kind}-{digest}"


def job_name(operation: Operation, run: str) -> str:
    """The Job of one run: the same run again has the same one."""
    return stem_of(operation) if not run.isdecimal() else f"{stem_of(operation)}-{run}"


def labels_of(operation: Operation, names: Names) -> dict[str, str]:
    """The labels of a Job, its pods and its files."""
    return {**names.labels(), COMPONENT_LABEL: JOB, OPERATION_LABEL: operation.metadata.uid or ""}


def job(operation: Operation, run: str, names: Names, pod: JobPod) -> Content:
    """The Job. Its finished pods stay with it, and with them what they said."""
    labels = labels_of(operation, names)
    rules = {"podFailurePolicy": _own_rules(pod.spec)} if pod.is_ours else {}
    metadata = {"labels": {**pod.labels, **labels}, "annotations": dict(pod.annotations)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(job_name(operation, run), operation, labels),
        "spec": {
            "backoffLimit": pod.tries,
            # Two at the same time would be at the same ledger and the same target.
            "podReplacementPolicy": "Failed",
            **rules,
            "template": {"metadata": metadata, "spec": pod.spec},
        },
    }


def files(kind: str, values: Mapping[str, str], operation: Operation, names: Names) -> Content:
    """A ConfigMap or a Secret for the pods of an operation."""
    metadata = _metadata(stem_of(operation), operation, labels_of(operation, names))
    place = {"type": "Opaque", "stringData": dict(values)} if kind == "Secret" else {"data": dict(values)}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **place}


def own_pod(container: Content, render_context: RenderContext, volumes: Sequence[Content]) -> Content:
    """The pod of a program of Headrace."""
    engine = render_context.settings.engine
    filled = {
        "image": engine.name,
        "imagePullPolicy": engine.pull_policy,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # Folders of claims belong to anybody, and files are given to their owners.
        "securityContext": confined("CHOWN", "DAC_OVERRIDE"),
    }
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "imagePullSecrets": [{"name": each} for each in engine.pull_secrets],
        "containers": [{**filled, **container}],
        "volumes": list(volumes),
    }


def _own_rules(spec: Content) -> Content:
    exits = {"containerName": spec["containers"][0]["name"], "operator": "NotIn", "values": list(_KILLED)}
    return {
        "rules": [
            # Nobody's fault: its node was drained, or needed for others.
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": exits},
        ]
    }


def _metadata(name: str, operation: Operation, labels: Mapping[str, str]) -> Content:
    owner = {
        "apiVersion": operation.api_version,
        "kind": operation.kind,
        "name": operation.name,
        "uid": operation.metadata.uid,
        "controller": True,
    }
    return {
        "name": name,
        "namespace": operation.namespace or "default",
        "labels": dict(labels),
        "ownerReferences": [owner],
    }

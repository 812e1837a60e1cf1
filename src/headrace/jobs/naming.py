"""Names, labels and annotations of what is made for a job on Kubernetes."""

from __future__ import annotations

from typing import Any

from headrace.jobs.spec import JobKind, JobSpec, RoleName

MANAGED_BY = "headrace-arena"
JOB_LABEL = "headrace.io/job"
KIND_LABEL = "headrace.io/job-kind"
ROLE_LABEL = "headrace.io/job-role"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

WAIT_WARM = "headrace.io/wait-warm-percent"
"""On a suspended job: it starts once so much of each dataset is cached."""

HELD_QUEUE = "headrace.io/held-queue-name"
"""Of such a job: the queue that it enters then."""

STARTING_TIMEOUT = "headrace.io/starting-timeout-seconds"
"""How long after its creation a job may wait for its processes before it is failed."""

TTL = "headrace.io/ttl-seconds-after-finished"
"""How long after its end a job is deleted."""

GROUP = "kubeflow.org"
KINDS = {JobKind.MPI: "MPIJob", JobKind.PYTORCH: "PyTorchJob", JobKind.TF: "TFJob"}


def record_name(name: str, kind: JobKind) -> str:
    """`N-mpijob`: the ConfigMap with the request, and the Secret with what of it is secret."""
    return f"{name}-{kind.value}"


def tensorboard_name(name: str) -> str:
    """`N-tensorboard`: a Deployment and its Service."""
    return f"{name}-tensorboard"


def full_name(kind: JobKind, name: str) -> str:
    """`mpijob.kubeflow.org/N`."""
    return f"{kind.value}.{GROUP}/{name}"


def own_labels(name: str, kind: JobKind) -> dict[str, str]:
    """By which everything that belongs to a job is found; `app` and `release` are Arena's."""
    return {
        "app": kind.value,
        "release": name,
        "app.kubernetes.io/name": "training-job",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/managed-by": MANAGED_BY,
        JOB_LABEL: name,
        KIND_LABEL: kind.value,
    }


def job_metadata(spec: JobSpec) -> dict[str, Any]:
    """Of the job object."""
    labels = {**spec.labels, **own_labels(spec.name, spec.kind)}
    annotations = {**spec.annotations, **_orders(spec)}
    if spec.queue and not spec.wait_warm_percent:
        labels[QUEUE_LABEL] = spec.queue
    metadata: dict[str, Any] = {"name": spec.name, "namespace": spec.namespace, "labels": labels}
    return metadata | ({"annotations": annotations} if annotations else {})


def pod_metadata(spec: JobSpec, role: RoleName) -> dict[str, Any]:
    """Of the pods of a role."""
    own = {"app.kubernetes.io/component": role.value, ROLE_LABEL: role.value}
    labels = {**spec.labels, **own_labels(spec.name, spec.kind), **own}
    return {"labels": labels} | ({"annotations": dict(spec.annotations)} if spec.annotations else {})


def part_metadata(spec: JobSpec, name: str) -> dict[str, Any]:
    """Of another object that is made for the job."""
    return {"name": name, "namespace": spec.namespace, "labels": own_labels(spec.name, spec.kind)}


def _orders(spec: JobSpec) -> dict[str, str]:
    """What the keeper of jobs is to do, since no operator of Kubeflow does it."""
    found = {}
    if spec.wait_warm_percent:
        found[WAIT_WARM] = str(spec.wait_warm_percent)
        found |= {HELD_QUEUE: spec.queue} if spec.queue else {}
    if spec.starting_timeout_s:
        found[STARTING_TIMEOUT] = str(spec.starting_timeout_s)
    if spec.ttl_after_finished_s is not None:
        found[TTL] = str(spec.ttl_after_finished_s)
    return found

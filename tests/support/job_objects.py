"""Jobs and their pods as the operators of Kubeflow leave them in the API server, for tests without one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.jobs.naming import JOB_LABEL, MANAGED_BY

Content = dict[str, Any]

BEGAN = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def at(seconds: float) -> str:
    """So many seconds after the job was created."""
    return (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, seconds: float, status: str = "True", **more: str) -> Content:
    return {"type": kind, "status": status, "lastTransitionTime": at(seconds), **more}


def mpijob(
    *conditions: Content,
    name: str = "resnet",
    workers: int = 2,
    claims: tuple[str, ...] = ("imagenet",),
    annotations: dict[str, str] | None = None,
    suspend: bool = False,
    **status: Any,
) -> Content:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    roles = {
        "Launcher": {"replicas": 1, "template": {"spec": {"containers": [{"name": "mpi"}]}}},
        "Worker": {
            "replicas": workers,
            "template": {"spec": {"containers": [{"name": "mpi"}], "volumes": volumes}},
        },
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "creationTimestamp": at(0),
            "labels": {"app.kubernetes.io/managed-by": MANAGED_BY, JOB_LABEL: name},
            "annotations": annotations or {},
        },
        "spec": {"mpiReplicaSpecs": roles, "runPolicy": {"suspend": suspend}},
        "status": {"conditions": list(conditions), **status},
    }


def of_training_operator(job: Content, policy: str = "All") -> Content:
    """The same as an MPIJob of v1, whose operator deletes pods by this policy."""
    run_policy = job["spec"]["runPolicy"] | {"cleanPodPolicy": policy}
    return job | {"apiVersion": "kubeflow.org/v1", "spec": job["spec"] | {"runPolicy": run_policy}}


def succeeded(seconds: float = 60, **more: Any) -> Content:
    ends = (condition("Running", 5, "False"), condition("Succeeded", seconds))
    return mpijob(*ends, completionTime=at(seconds), **more)


def failed(seconds: float = 60, **more: Any) -> Content:
    said = condition("Failed", seconds, reason="BackoffLimitExceeded", message="it has failed")
    return mpijob(condition("Running", 5, "False"), said, completionTime=at(seconds), **more)


def pod(
    name: str,
    role: str,
    phase: str = "Running",
    *,
    index: int = 0,
    job: str = "resnet",
    claims: tuple[str, ...] = (),
    state: Content | None = None,
    created: float = 1,
    node: str = "node-1",
    leaving: bool = False,
    **status: Any,
) -> Content:
    """A pod of an MPIJob. Without a `state` it is what its phase says, and ended with 0 or 1."""
    metadata: Content = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "creationTimestamp": at(created),
        "labels": {
            "training.kubeflow.org/job-name": job,
            "training.kubeflow.org/job-role": role,
            "training.kubeflow.org/operator-name": "mpi-operator",
            "training.kubeflow.org/replica-index": str(index),
            JOB_LABEL: job,
        },
    }
    if leaving:
        # Asked for at 70.
        metadata |= {"deletionTimestamp": at(100), "deletionGracePeriodSeconds": 30}
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [{"name": "mpi"}], "volumes": volumes},
        "status": {
            "phase": phase,
            "hostIP": "198.18.0.1",
            "containerStatuses": [{"name": "mpi", "state": _state(phase) if state is None else state}],
            **status,
        },
    }


def ended_with(code: int, reason: str = "Error", seconds: float = 50) -> Content:
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "startedAt": at(5),
            "finishedAt": at(seconds),
        }
    }


def launcher(phase: str = "Running", **more: Any) -> Content:
    return pod("resnet-launcher-x7k2p", "launcher", phase, **more)


def worker(index: int = 0, phase: str = "Running", **more: Any) -> Content:
    return pod(f"resnet-worker-{index}", "worker", phase, index=index, **({"claims": ("imagenet",)} | more))


def _state(phase: str) -> Content:
    if phase == "Running":
        return {"running": {"startedAt": at(5)}}
    if phase == "Pending":
        return {"waiting": {"reason": "ContainerCreating"}}
    return ended_with(0 if phase == "Succeeded" else 1)

"""PyTorchJobs of the Kubeflow operators, v1: one master, and workers beside it."""

from __future__ import annotations

from typing import Any

from headrace.jobs.naming import job_metadata
from headrace.jobs.pod_templates import PodParts, command_of, pod_template
from headrace.jobs.policies import restart_policy, run_policy
from headrace.jobs.ranks import MASTER_PORT
from headrace.jobs.spec import JobSpec, RoleName

Content = dict[str, Any]

VERSIONS = ("v1",)
# The operator looks for a container and a port of these names.
_CONTAINER = "pytorch"
_PORT = "pytorchjob-port"
_ROLES = {"Master": RoleName.MASTER, "Worker": RoleName.WORKER}


def pytorch_job(spec: JobSpec) -> Content:
    """The object."""
    replicas = {
        title: _replicas(spec, name)
        for title, name in _ROLES.items()
        if (role := spec.role(name)) is not None and role.replicas
    }
    found: Content = {
        "runPolicy": run_policy(spec, processes=sum(role.replicas for role in spec.roles)),
        "pytorchReplicaSpecs": replicas,
    }
    if spec.processes_per_node:
        found["nprocPerNode"] = spec.processes_per_node
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": job_metadata(spec),
        "spec": found,
    }


def _replicas(spec: JobSpec, name: RoleName) -> Content:
    role = spec.role(name)
    if role is None:
        raise ValueError(f"this job has no {name.value}")
    parts = PodParts(
        container=_CONTAINER,
        command=command_of(spec),
        ports=[{"name": _PORT, "containerPort": role.port or MASTER_PORT}],
    )
    return {
        "replicas": role.replicas,
        "restartPolicy": restart_policy(spec),
        "template": pod_template(spec, role, parts),
    }

"""PyTorchJobs of the Kubeflow operators, v1: one master, and workers beside it."""

from __future__ import annotations

from typing import Any

from headrace.jobs import old_kinds
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


def pytorch_job(spec: JobSpec, version: str = "v1") -> Content:
    """The object. Raises `UnsupportedError` for what a kind of this version cannot say."""
    replicas = {
        title: _replicas(spec, name, version)
        for title, name in _ROLES.items()
        if (role := spec.role(name)) is not None and role.replicas
    }
    if version == old_kinds.OLD:
        found = {**old_kinds.policy_fields(spec), "pytorchReplicaSpecs": replicas}
    else:
        found = {"runPolicy": run_policy(spec, processes=_processes(spec)), "pytorchReplicaSpecs": replicas}
        if spec.processes_per_node:
            found["nprocPerNode"] = spec.processes_per_node
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": job_metadata(spec),
        "spec": found,
    }


def _processes(spec: JobSpec) -> int:
    return sum(role.replicas for role in spec.roles)


def _replicas(spec: JobSpec, name: RoleName, version: str) -> Content:
    role = spec.role(name)
    if role is None:
        raise ValueError(f"this job has no {name.value}")
    is_old = version == old_kinds.OLD
    each_node = {"PET_NPROC_PER_NODE": spec.processes_per_node} if is_old and spec.processes_per_node else {}
    parts = PodParts(
        container=_CONTAINER,
        command=old_kinds.ranked(command_of(spec)) if is_old else command_of(spec),
        environment=each_node,
        ports=[{"name": _PORT, "containerPort": role.port or MASTER_PORT}],
    )
    template = pod_template(spec, role, parts)
    return {
        "replicas": role.replicas,
        "restartPolicy": restart_policy(spec),
        "template": old_kinds.with_gang(spec, template, _processes(spec)) if is_old else template,
    }

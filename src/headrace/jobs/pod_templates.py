"""The pods of a job's processes: what all kinds of jobs have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.jobs.code import code_container
from headrace.jobs.environments import is_secret, role_environment
from headrace.jobs.naming import JOB_LABEL, ROLE_LABEL, pod_metadata, record_name
from headrace.jobs.pod_volumes import NO_VOLUMES, Volumes, pod_volumes
from headrace.jobs.spec import JobSpec, Resources, Role, Toleration

Content = dict[str, Any]

GPU = "nvidia.com/gpu"
RDMA = "rdma/hca"
_EXPANDED = re.compile(r"\$(?=[$(])")


@dataclass(frozen=True, slots=True)
class PodParts:
    """The parts of a role's pods that differ by the kind of job. `command` None: the operator's own."""

    container: str
    command: Sequence[str] | None
    environment: Mapping[str, str] | None = None
    """Besides what was asked for."""
    ports: Sequence[Content] = ()
    volumes: Volumes = NO_VOLUMES
    with_data: bool = True
    with_resources: bool = True
    first: Sequence[str] | None = None
    """A command that is run before, in the same image."""


def pod_template(spec: JobSpec, role: Role, parts: PodParts) -> Content:
    """The template of a role's pods. Restart policies stand beside it, with the role."""
    volumes = pod_volumes(spec, with_data=parts.with_data) + parts.volumes
    init = [code_container(spec, environment(spec, role))] if spec.code else []
    init += [_first(spec, role, parts.first)] if parts.first else []
    found: Content = {
        "containers": [_container(spec, role, parts, volumes)],
        "initContainers": init,
        "volumes": list(volumes.volumes),
        "nodeSelector": dict(role.selector if role.selector is not None else spec.selector),
        "tolerations": [_toleration(each) for each in spec.tolerations],
        "affinity": _affinity(spec, role),
        "priorityClassName": spec.priority_class,
        "schedulerName": spec.scheduler,
        "imagePullSecrets": [{"name": name} for name in spec.image_pull_secrets],
        "hostNetwork": spec.host_network,
        "dnsPolicy": "ClusterFirstWithHostNet" if spec.host_network else "",
        "hostIPC": spec.host_ipc,
        "hostPID": spec.host_pid,
    }
    said = {key: value for key, value in found.items() if value}
    return {"metadata": pod_metadata(spec, role.name), "spec": said}


def command_of(spec: JobSpec) -> list[str]:
    """One word is a line for the shell; several are a program and its arguments, as they are."""
    words = [spec.shell, "-c", spec.command[0]] if len(spec.command) == 1 else list(spec.command)
    return [literal(word) for word in words]


def environment(spec: JobSpec, role: Role) -> list[Content]:
    """The variables of a container; those with secret values point to the job's Secret."""
    secret = record_name(spec.name, spec.kind)
    found = []
    for name, value in role_environment(spec, role).items():
        if is_secret(name) and name in spec.environment:
            reference = {"secretKeyRef": {"name": secret, "key": variable_key(name)}}
            found.append({"name": name, "valueFrom": reference})
        else:
            found.append({"name": name, "value": literal(value)})
    return found


def variable_key(name: str) -> str:
    """Of a variable, in the job's Secret."""
    return f"env.{name}"


def literal(text: str) -> str:
    """The text such that Kubernetes, which expands `$(NAME)` and takes `$$` for `$`, hands it on unchanged."""
    return _EXPANDED.sub("$$", text)


def _container(spec: JobSpec, role: Role, parts: PodParts, volumes: Volumes) -> Content:
    own = [{"name": name, "value": value} for name, value in (parts.environment or {}).items()]
    found: Content = {
        "name": parts.container,
        "image": role.image or spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "workingDir": spec.working_dir,
        "command": list(parts.command) if parts.command is not None else [],
        "env": [*environment(spec, role), *own],
        "ports": list(parts.ports),
        "resources": _resources(spec, role.resources) if parts.with_resources else {},
        "volumeMounts": list(volumes.mounts),
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}} if spec.rdma else {},
    }
    return {key: value for key, value in found.items() if value}


def _first(spec: JobSpec, role: Role, command: Sequence[str]) -> Content:
    return {
        "name": "make-ready",
        "image": role.image or spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": list(command),
    }


def _resources(spec: JobSpec, resources: Resources) -> Content:
    """Extended resources need requests and limits that are the same."""
    extended = {**resources.devices}
    extended |= {GPU: resources.gpus} if resources.gpus else {}
    extended |= {RDMA: 1} if spec.rdma else {}
    counts = {name: str(count) for name, count in extended.items()}
    requests = {"cpu": resources.cpu, "memory": resources.memory} | counts
    limits = {"cpu": resources.cpu_limit, "memory": resources.memory_limit} | counts
    found = {"requests": _said(requests), "limits": _said(limits)}
    return {key: value for key, value in found.items() if value}


def _said(amounts: Mapping[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if amount}


def _toleration(toleration: Toleration) -> Content:
    found = toleration.model_dump()
    return {
        key: value
        for key, value in found.items()
        if value or (key == "value" and toleration.operator == "Equal")
    }


def _affinity(spec: JobSpec, role: Role) -> Content:
    """Pods of a role apart from one another, or together. Nearness to data is the webhook's affair."""
    if role.affinity_policy == "none":
        return {}
    kind = "podAntiAffinity" if role.affinity_policy == "spread" else "podAffinity"
    term = {
        "labelSelector": {"matchLabels": {JOB_LABEL: spec.name, ROLE_LABEL: role.name.value}},
        "topologyKey": "kubernetes.io/hostname",
    }
    if role.affinity_constraint == "required":
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    wish = {"weight": 100, "podAffinityTerm": term}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}

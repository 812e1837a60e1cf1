"""TFJobs of the Kubeflow operators, v1: chief, workers, parameter servers, evaluator."""

from __future__ import annotations

from typing import Any

from headrace.jobs import old_kinds
from headrace.jobs.naming import job_metadata
from headrace.jobs.pod_templates import PodParts, command_of, pod_template
from headrace.jobs.policies import restart_policy, run_policy
from headrace.jobs.ranks import TF_PORT
from headrace.jobs.spec import JobSpec, Role, RoleName

Content = dict[str, Any]

VERSIONS = ("v1",)
# The operator looks for a container and a port of these names.
_CONTAINER = "tensorflow"
_PORT = "tfjob-port"
_TITLES = {
    RoleName.CHIEF: "Chief",
    RoleName.WORKER: "Worker",
    RoleName.PS: "PS",
    RoleName.EVALUATOR: "Evaluator",
}


def tf_job(spec: JobSpec, version: str = "v1") -> Content:
    """The object. Raises `UnsupportedError` for what a kind of this version cannot say."""
    running = [role for role in spec.roles if role.replicas]
    processes = sum(role.replicas for role in running)
    replicas = {_TITLES[role.name]: _replicas(spec, role, version, processes) for role in running}
    if version == old_kinds.OLD:
        found = {**old_kinds.policy_fields(spec), "tfReplicaSpecs": replicas}
    else:
        found = {"runPolicy": run_policy(spec, processes=processes), "tfReplicaSpecs": replicas}
    if spec.success_policy == "AllWorkers":
        # The other one has no name in the API: it is the default, written as an empty word.
        found["successPolicy"] = spec.success_policy
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": job_metadata(spec),
        "spec": found,
    }


def lone_chief(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    """A single worker without parameter servers and chief is the chief itself, as with Arena."""
    running = {role.name: role for role in roles if role.replicas}
    worker = running.get(RoleName.WORKER)
    if worker is None or worker.replicas != 1 or running.keys() & {RoleName.PS, RoleName.CHIEF}:
        return roles
    return tuple(
        role.model_copy(update={"name": RoleName.CHIEF}) if role.name is RoleName.WORKER else role
        for role in roles
        if role.name is not RoleName.CHIEF
    )


def _replicas(spec: JobSpec, role: Role, version: str, processes: int) -> Content:
    parts = PodParts(
        container=_CONTAINER,
        command=command_of(spec),
        ports=[{"name": _PORT, "containerPort": role.port or TF_PORT}],
    )
    template = pod_template(spec, role, parts)
    if version == old_kinds.OLD:
        template = old_kinds.with_gang(spec, template, processes)
    return {"replicas": role.replicas, "restartPolicy": restart_policy(spec), "template": template}

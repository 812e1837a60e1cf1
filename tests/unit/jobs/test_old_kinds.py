"""PyTorchJobs and TFJobs without runPolicy, against the schemas that Arena installs."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
import yaml
from crd_schemas import value_faults
from old_mpijobs import EVERYTHING, arena_training_crd

from headrace.errors import UnsupportedError
from headrace.jobs.objects import job_object
from headrace.jobs.old_kinds import OLD
from headrace.jobs.spec import JobKind, JobSpec, Resources, Role, RoleName

_ROLES = {
    JobKind.PYTORCH: (RoleName.MASTER, RoleName.WORKER),
    JobKind.TF: (RoleName.CHIEF, RoleName.WORKER, RoleName.PS, RoleName.EVALUATOR),
}
_PLURALS = {JobKind.PYTORCH: "pytorchjobs", JobKind.TF: "tfjobs"}


def spec_of(kind: JobKind, **more: Any) -> JobSpec:
    roles = tuple(
        Role(name=name, replicas=1 + (name is RoleName.WORKER), resources=Resources(cpu="4", gpus=8))
        for name in _ROLES[kind]
    )
    given = {key: value for key, value in EVERYTHING.items() if key not in ("roles", "mounts_on_launcher")}
    return JobSpec(
        **{
            **given,
            **{"name": "resnet", "namespace": "default", "kind": kind, "roles": roles, "image": "torch"},
            **{"command": ("python", "train.py"), "running_timeout_s": 60, "ttl_after_finished_s": 60},
            **({"processes_per_node": "8"} if kind is JobKind.PYTORCH else {"success_policy": "AllWorkers"}),
            **more,
        }
    )


@pytest.mark.parametrize("kind", list(_PLURALS))
def test_arenas_schema_knows_every_field_that_is_written(kind: JobKind) -> None:
    crd = yaml.load(arena_training_crd(_PLURALS[kind]).read_text(), Loader=yaml.CSafeLoader)
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    job = job_object(spec_of(kind), version=OLD)
    assert job["apiVersion"] == f"kubeflow.org/{version['name']}"
    assert list(value_faults(job, schema)) == []
    newer = list(value_faults(job_object(spec_of(kind)), schema))
    assert ".spec.runPolicy: unknown" in newer, "as its API server refuses it"
    assert {"cleanPodPolicy", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"} <= job[
        "spec"
    ].keys()


@pytest.mark.parametrize("kind", list(_PLURALS))
@pytest.mark.parametrize("held", [{"suspend": True}, {"queue": "team"}, {"wait_warm_percent": 50}])
def test_what_such_a_kind_cannot_say_is_refused_with_the_operator_that_can(
    kind: JobKind, held: dict[str, Any]
) -> None:
    with pytest.raises(UnsupportedError, match="like it") as refused:
        job_object(spec_of(kind, **held), version=OLD)
    assert "install the training operator" in str(refused.value.hint)


def test_torchrun_finds_its_variables_by_those_of_the_operator() -> None:
    job = job_object(
        spec_of(JobKind.PYTORCH, command=("sh", "-c", "echo $PET_NNODES $PET_NODE_RANK $PET_MASTER_ADDR")),
        version=OLD,
    )
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert {"name": "PET_NPROC_PER_NODE", "value": "8"} in container["env"]
    words = [word.replace("$$", "$") for word in (*container.get("command", ()), *container.get("args", ()))]
    given = {"WORLD_SIZE": "3", "RANK": "1", "MASTER_ADDR": "resnet-master-0", "MASTER_PORT": "23456"}
    done = subprocess.run(words, env={**os.environ, **given}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "1", "resnet-master-0"]

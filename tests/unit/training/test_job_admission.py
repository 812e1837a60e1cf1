"""What is said of a job before it is made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from training_contexts import job_spec

from headrace.jobs.spec import (
    CodeSync,
    ConfigFile,
    DataVolume,
    HostFolder,
    JobKind,
    JobSpec,
    Resources,
    Role,
    RoleName,
)
from headrace.jobs.views import NodeRoom
from headrace.local.jobs.job_admission import AdmissionContext, notices, problems
from headrace.local.jobs.job_store import spec_from_json, spec_to_json
from headrace.local.jobs.job_volumes import Volume
from headrace.local.jobs.scheduler import CandidateNode
from headrace.plan.observed import Node


@pytest.fixture
def here(tmp_path: Path) -> AdmissionContext:
    for name in ("mpirun", "orted"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return AdmissionContext(
        taken=frozenset(),
        volumes=(),
        sites=(CandidateNode(Node("node-1")),),
        rooms=(NodeRoom("node-1", 0, 0, 0),),
        state_folder=Path("/var/lib/headrace/local"),
        search_path=str(tmp_path),
        is_root=True,
    )


def said(spec: JobSpec, here: AdmissionContext, **changes: Any) -> str:
    return "\n".join(problems(spec, replace(here, **changes)))


def test_a_job_that_can_run_has_no_problems(here: AdmissionContext) -> None:
    assert said(job_spec(working_dir="/"), here) == ""
    assert list(notices(job_spec(roles=(Role(name=RoleName.WORKER, replicas=1),)))) == []


@pytest.mark.parametrize(
    ("fields", "changes", "word"),
    [
        ({}, {"taken": frozenset({JobKind.MPI})}, "arena delete job"),
        ({}, {"sites": (), "rooms": ()}, "no node"),
        ({}, {"search_path": "/nowhere"}, "install Open MPI"),
        ({}, {"state_folder": Path("/a b")}, "without spaces"),
        ({"working_dir": "/not/there"}, {}, "no working folder /not/there"),
        ({"host_folders": (HostFolder(host_path="/not/there", path="/x"),)}, {}, "no folder /not/there"),
        ({"host_folders": (HostFolder(host_path="/tmp", path="/var"),)}, {}, "would hide"),
        ({"code": CodeSync(mode="git", source="x")}, {}, "code is not fetched"),
        ({"config_files": (ConfigFile(path="/x", content=SecretStr("")),)}, {"is_root": False}, "only root"),
    ],
)
def test_each_problem_is_a_sentence_that_says_what_to_do(
    fields: dict[str, Any], changes: dict[str, Any], word: str, here: AdmissionContext
) -> None:
    assert word in said(job_spec(**{"working_dir": "/", **fields}), here, **changes)


def test_a_problem_of_a_volume_is_told(here: AdmissionContext) -> None:
    volume = Volume(DataVolume(claim="a", path="/a"), problem="dataset default/a is NotBound")
    assert "NotBound" in said(job_spec(working_dir="/"), here, volumes=(volume,))


def test_a_working_folder_may_come_with_a_volume(here: AdmissionContext) -> None:
    folders = (HostFolder(host_path="/tmp", path="/demo"),)
    assert said(job_spec(working_dir="/demo/code", host_folders=folders), here) == ""


def test_what_has_no_effect_is_named() -> None:
    resources = Resources(gpus=1, cpu="2", devices={"rdma/hca": 1})
    spec = job_spec(
        image="a",
        priority_class="high",
        queue="q",
        gang=True,
        scheduler="s",
        rdma=True,
        roles=(Role(name=RoleName.WORKER, replicas=1, resources=resources),),
    )
    told = "\n".join(notices(spec))
    for word in (
        "images",
        "priority high",
        "queue q",
        "gang",
        "scheduler s",
        "rdma",
        "devices",
        "GPUs",
        "memory",
    ):
        assert word in told


def test_a_request_is_kept_whole_with_its_secrets() -> None:
    file = ConfigFile(path="/a", content=SecretStr('se"cret\n'))
    spec = job_spec(config_files=(file,), environment={"A": 'b\n"c" ü'})
    kept = spec_from_json(spec_to_json(spec))
    assert kept == spec
    assert kept.config_files[0].content.get_secret_value() == 'se"cret\n'

from __future__ import annotations

from typing import Any

import pytest
from memory_jobs import mpi_spec
from pydantic import SecretStr

from headrace.jobs.checking import faults
from headrace.jobs.ranks_asked import ranks_asked
from headrace.jobs.spec import (
    CodeSync,
    ConfigFile,
    DataVolume,
    HostFolder,
    JobKind,
    Resources,
    Role,
    RoleName,
    TensorBoard,
)

DATA = DataVolume(claim="imagenet", path="/data")
LAUNCHER = Role(name=RoleName.LAUNCHER, replicas=1)


def worker(**changed: Any) -> tuple[Role, ...]:
    resources = Resources(**{"gpus": 8, **changed})
    return LAUNCHER, Role(name=RoleName.WORKER, replicas=4, resources=resources)


def test_the_seeds_request_has_no_fault() -> None:
    assert faults(mpi_spec(data=(DATA,), environment={"DATA_DIR": "/data/imagenet"})) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": ""}, "--name is missing"),
        ({"name": "a" * 50}, "--name aaa"),
        ({"name": "Horovod"}, "--name Horovod"),
        ({"name": "5-a"}, "--name 5-a"),
        ({"namespace": "A"}, "--namespace A"),
        ({"image": ""}, "--image is missing"),
        ({"command": ()}, "command is missing"),
        ({"command": ("",)}, "command is missing"),
        ({"command": ("a\0b",)}, "zero byte"),
        ({"command": ("mpirun", "-np", "33", "x")}, "33 ranks, and there are slots for 32"),
        ({"environment": {"A-B": "x"}}, "--env A-B"),
        ({"environment": {"OMPI_MCA_orte_default_hostfile": "x"}}, "set by the job itself"),
        ({"environment": {"A": "\0"}}, "zero byte in its value"),
        ({"roles": (LAUNCHER, Role(name=RoleName.WORKER, replicas=0))}, "--workers 0"),
        ({"roles": (Role(name=RoleName.WORKER, replicas=1),)}, "needs a launcher"),
        ({"roles": worker(cpu="two")}, "cpu two of workers is not a quantity"),
        ({"roles": worker(memory="0")}, "memory 0"),
        ({"roles": worker(cpu="2", cpu_limit="1500m")}, "more than its limit"),
        ({"roles": worker(devices={"gpu": 1})}, "--device gpu"),
        ({"working_dir": "here"}, "--working-dir here"),
        ({"data": (DataVolume(claim="x", path="/data"),)}, "--data x is not the name"),
        ({"data": (DataVolume(claim="imagenet", path="data"),)}, "--data data is not an absolute path"),
        ({"data": (DataVolume(claim="imagenet", path="/"),)}, "cannot be /"),
        ({"data": (DataVolume(claim="imagenet", path="/dev/shm"),)}, "belongs to the system"),
        ({"data": (DataVolume(claim="imagenet", path="/d", sub_path="../x"),)}, "not a folder inside"),
        ({"data": (DATA, DataVolume(claim="imagenet", path="/other"))}, "stands there 2 times"),
        (
            {"data": (DATA,), "host_folders": (HostFolder(host_path="/a", path="/data"),)},
            "place of 2 volumes",
        ),
        ({"host_folders": (HostFolder(host_path="a", path="/a"),)}, "--data-dir a"),
        ({"config_files": (ConfigFile(path="etc/a", content=SecretStr("x")),)}, "--config-file etc/a"),
        ({"labels": {"headrace.io/job": "x"}}, "set by the job itself"),
        ({"labels": {"app": "x"}}, "set by the job itself"),
        ({"labels": {"team": "a b"}}, "--label team"),
        ({"selector": {"a/b/c": "x"}}, "--selector a/b/c"),
        ({"annotations": {"": "x"}}, "--annotation"),
        ({"shared_memory": "much"}, "--share-memory much"),
        ({"image_pull_policy": "Sometimes"}, "--image-pull-policy"),
        ({"shell": "sh -x"}, "--shell"),
        ({"code": CodeSync(mode="hdfs", source="x")}, "--sync-mode hdfs"),
        ({"code": CodeSync(mode="rsync", source="x")}, "--sync-image is missing"),
        ({"code": CodeSync(mode="git", source="")}, "--sync-source is missing"),
        ({"tensorboard": TensorBoard()}, "--logdir /training_logs is in no volume"),
        ({"wait_warm_percent": 50}, "no --data to wait for"),
        ({"wait_warm_percent": 50, "data": (DATA,), "suspend": True}, "--suspend and --wait-warm"),
        ({"running_timeout_s": 2**31}, "--running-timeout"),
        ({"processes_per_node": "0"}, "--nproc-per-node 0"),
        ({"priority_class": "High!"}, "--priority High!"),
    ],
)
def test_each_fault_is_told_with_its_flag(changed: dict[str, Any], words: str) -> None:
    found = faults(mpi_spec(**changed))
    assert len(found) == 1
    assert words in found[0]


def test_all_faults_are_told_at_once_and_no_value_with_them() -> None:
    found = faults(mpi_spec("A", image="", environment={"A-B": "hunter2", "TOKEN": "hunter2\0"}))
    assert len(found) == 4
    assert not any("hunter2" in fault for fault in found)


def test_variables_of_other_kinds_of_jobs_are_free() -> None:
    assert faults(mpi_spec(environment={"TF_CONFIG": "{}", "MASTER_ADDR": "x"})) == []
    assert (
        len(
            faults(
                mpi_spec(
                    kind=JobKind.TF,
                    roles=(Role(name=RoleName.CHIEF, replicas=1),),
                    environment={"TF_CONFIG": ""},
                )
            )
        )
        == 1
    )


def test_where_images_have_no_meaning_none_is_needed() -> None:
    assert faults(mpi_spec(image=""), needs_image=False) == []


@pytest.mark.parametrize(
    ("command", "count"),
    [
        (("./launch-example.sh", "4", "8"), None),
        (("mpirun", "-np", "32", "python", "train.py", "-np", "99"), 32),
        (("/usr/bin/mpirun", "--np=8", "x"), 8),
        (("mpirun -n 4 python x.py",), 4),
        (("mpirun -np $((4*8)) x",), None),
        (("cd /a && mpirun -np 99 x",), None),
        (("mpirun", "-np", "99", "--oversubscribe", "x"), None),
        (("mpirun", "--map-by", "slot:OVERSUBSCRIBE", "-np", "99", "x"), None),
        (("mpirun 'unclosed",), None),
        (("mpirun", "python", "x"), None),
        (("python", "-n", "99"), None),
        ((), None),
    ],
)
def test_ranks_are_counted_only_where_they_stand_in_plain_words(
    command: tuple[str, ...], count: int | None
) -> None:
    assert ranks_asked(command) == count

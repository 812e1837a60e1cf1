from __future__ import annotations

import json

from memory_jobs import mpi_spec

from headrace.jobs.environments import is_secret, role_environment, without_secrets
from headrace.jobs.ranks import (
    Process,
    hostfile,
    mpi_environment,
    process_environment,
)
from headrace.jobs.spec import JobKind, JobSpec, Resources, Role, RoleName


def pytorch(workers: int = 3, processes: str = "") -> JobSpec:
    roles = (
        Role(name=RoleName.MASTER, replicas=1, resources=Resources(gpus=2)),
        Role(name=RoleName.WORKER, replicas=workers - 1, resources=Resources(gpus=2)),
    )
    return mpi_spec(kind=JobKind.PYTORCH, roles=roles, processes_per_node=processes)


def test_hosts_have_a_slot_for_each_gpu() -> None:
    assert hostfile(["10.0.0.1", "10.0.0.2"], mpi_spec().slots_per_worker) == (
        "10.0.0.1 slots=8\n10.0.0.2 slots=8\n"
    )


def test_mpirun_without_flags_knows_hosts_agent_and_networks() -> None:
    found = mpi_environment("/etc/hosts", slots=2, agent="/bin/agent", interfaces=["10.0.0.0/24", "lo"])
    assert found["OMPI_MCA_orte_default_hostfile"] == "/etc/hosts"
    assert found["OMPI_MCA_plm_rsh_agent"] == "/bin/agent"
    assert found["OMPI_MCA_btl_tcp_if_include"] == found["OMPI_MCA_oob_tcp_if_include"] == "10.0.0.0/24,lo"
    assert "OMPI_MCA_plm_rsh_agent" not in mpi_environment("/x", slots=1)


def test_processes_of_torchrun_are_numbered_from_the_master_on() -> None:
    spec = pytorch(processes="2")
    processes = [
        Process(RoleName.MASTER, 0, "m", 29500),
        Process(RoleName.WORKER, 0, "a"),
        Process(RoleName.WORKER, 1, "b"),
    ]
    found = [process_environment(spec, processes, each) for each in processes]
    assert [each["RANK"] for each in found] == ["0", "1", "2"]
    assert [each["PET_NODE_RANK"] for each in found] == ["0", "1", "2"]
    assert {(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in found} == {("m", "29500")}
    assert {(each["PET_NNODES"], each["WORLD_SIZE"], each["PET_NPROC_PER_NODE"]) for each in found} == {
        ("3", "6", "2")
    }


def test_a_number_of_processes_that_nobody_knows_yet_counts_as_one() -> None:
    master = Process(RoleName.MASTER, 0, "m")
    assert process_environment(pytorch(processes="auto"), [master], master)["WORLD_SIZE"] == "3"
    assert "PET_NPROC_PER_NODE" not in process_environment(pytorch(), [master], master)


def test_every_process_of_tensorflow_knows_the_others_and_itself() -> None:
    spec = mpi_spec(kind=JobKind.TF)
    chief, first, second = (
        Process(RoleName.CHIEF, 0, "c"),
        Process(RoleName.WORKER, 0, "a", 2300),
        Process(RoleName.WORKER, 1, "b"),
    )
    evaluator = Process(RoleName.EVALUATOR, 0, "e")
    found = json.loads(process_environment(spec, [chief, second, first, evaluator], second)["TF_CONFIG"])
    assert found["cluster"] == {"chief": ["c:2222"], "worker": ["a:2300", "b:2222"]}
    assert found["task"] == {"type": "worker", "index": 1}


def test_a_process_that_is_alone_has_no_cluster() -> None:
    chief = Process(RoleName.CHIEF, 0, "c")
    assert process_environment(mpi_spec(kind=JobKind.TF), [chief], chief) == {}


def test_arenas_variables_stand_below_those_that_were_asked_for() -> None:
    spec = mpi_spec(environment={"DATA_DIR": "/data", "gpus": "1"})
    launcher, worker = spec.roles
    assert role_environment(spec, worker) == {"workers": "4", "gpus": "1", "DATA_DIR": "/data"}
    assert role_environment(spec, launcher)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert role_environment(pytorch(), pytorch().roles[1])["workers"] == "3"


def test_secrets_are_known_by_their_names() -> None:
    for name in (
        "WANDB_API_KEY",
        "dbPassword",
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "apikey",
        "GIT_SYNC_PASSWORD",
    ):
        assert is_secret(name), name
    for name in (
        "DATA_DIR",
        "num_batch",
        "datasets_num_private_threads",
        "MAX_TOKENS",
        "MONKEY",
        "TOKENIZERS",
    ):
        assert not is_secret(name), name


def test_what_is_kept_of_a_request_has_no_secrets() -> None:
    spec = without_secrets(mpi_spec(environment={"API_KEY": "hunter2", "A": "b"}))
    assert spec.environment == {"API_KEY": "", "A": "b"}

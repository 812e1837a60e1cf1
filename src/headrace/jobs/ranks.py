"""How the processes of a job find each other: hostfiles, and the variables of MPI, torchrun and TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.jobs.spec import JobKind, JobSpec, RoleName

MASTER_PORT = 23456
"""Where the first process of a PyTorch job listens, as with the Kubeflow operator."""

TF_PORT = 2222
"""Where processes of TensorFlow listen, unless a role says otherwise."""

_PROCESSES_OF_A_WORD = ("auto", "cpu", "gpu")


@dataclass(frozen=True, slots=True)
class Process:
    """One process (of MPI: one worker) and where the others reach it."""

    role: RoleName
    index: int
    host: str
    port: int = 0


def hostfile(hosts: Sequence[str], slots: int) -> str:
    """Open MPI's list of hosts, so many ranks on each."""
    return "".join(f"{host} slots={slots}\n" for host in hosts)


def mpi_environment(
    hostfile_path: str, *, slots: int, agent: str = "", interfaces: Sequence[str] = ()
) -> dict[str, str]:
    """The variables by which `mpirun`, typed without any flag, starts a rank on every slot.

    `agent` starts a program on a host (empty: ssh does). `interfaces` are names or networks (10.0.0.0/24) that ranks
    talk over.
    """
    found = {
        "OMPI_MCA_orte_default_hostfile": hostfile_path,
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    if agent:
        found["OMPI_MCA_plm_rsh_agent"] = agent
    if interfaces:
        words = ",".join(interfaces)
        found |= {"OMPI_MCA_btl_tcp_if_include": words, "OMPI_MCA_oob_tcp_if_include": words}
    return found


def pytorch_environment(spec: JobSpec, process: Process, master: Process) -> dict[str, str]:
    """The variables of one process for `torchrun` and for `init_method=env://`, as the Kubeflow operator sets them."""
    count = sum(role.replicas for role in spec.roles)
    rank = process.index + (0 if process.role is RoleName.MASTER else 1)
    port = str(master.port or MASTER_PORT)
    found = {
        "MASTER_ADDR": master.host,
        "MASTER_PORT": port,
        "WORLD_SIZE": str(count * _processes_number(spec)),
        "RANK": str(rank),
        "PET_MASTER_ADDR": master.host,
        "PET_MASTER_PORT": port,
        "PET_NNODES": str(count),
        "PET_NODE_RANK": str(rank),
        "PYTHONUNBUFFERED": "1",
    }
    return found | ({"PET_NPROC_PER_NODE": spec.processes_per_node} if spec.processes_per_node else {})


def tensorflow_environment(processes: Sequence[Process], process: Process) -> dict[str, str]:
    """TF_CONFIG for one of `processes`; nothing when it is alone, as strategies for one machine expect it."""
    if len(processes) < 2:
        return {}
    cluster: dict[str, list[str]] = {}
    for each in sorted(processes, key=lambda each: each.index):
        # An evaluator is not a member: training goes on without it.
        if each.role is not RoleName.EVALUATOR:
            cluster.setdefault(each.role.value, []).append(f"{each.host}:{each.port or TF_PORT}")
    task: Mapping[str, object] = {"type": process.role.value, "index": process.index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})}


def process_environment(spec: JobSpec, processes: Sequence[Process], process: Process) -> dict[str, str]:
    """The variables by which one process of a PyTorch or TensorFlow job knows the others; empty for MPI, whose launcher
    tells."""
    if spec.kind is JobKind.TF:
        return tensorflow_environment(processes, process)
    if spec.kind is JobKind.PYTORCH:
        master = next((each for each in processes if each.role is RoleName.MASTER), process)
        return pytorch_environment(spec, process, master)
    return {}


def _processes_number(spec: JobSpec) -> int:
    """Of a word nobody knows before the process runs; the operator counts one, too."""
    word = spec.processes_per_node
    return int(word) if word and word not in _PROCESSES_OF_A_WORD else 1

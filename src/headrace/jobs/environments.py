"""The environment of a job's processes: what was asked for, what Arena adds, and which values are secrets."""

from __future__ import annotations

import re

from headrace.jobs.spec import JobKind, JobSpec, Role, RoleName

RESERVED = {
    JobKind.MPI: frozenset(
        (
            "OMPI_MCA_orte_default_hostfile",
            "OMPI_MCA_orte_launch_agent",
            "OMPI_MCA_plm_rsh_agent",
            "OMPI_MCA_plm_rsh_args",
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "PRTE_MCA_prte_launch_agent",
        )
    ),
    JobKind.PYTORCH: frozenset(
        (
            "MASTER_ADDR",
            "MASTER_PORT",
            "RANK",
            "WORLD_SIZE",
            "PET_MASTER_ADDR",
            "PET_MASTER_PORT",
            "PET_NNODES",
            "PET_NODE_RANK",
        )
    ),
    JobKind.TF: frozenset(("TF_CONFIG",)),
}
"""Variables by which processes of a kind find each other."""

_SECRET = re.compile(
    r"(^|_)(pass|passwd|password|passphrase|secret|secrets|token|credential|credentials|apikey|key|auth)($|_)|"
    r"accesskey|secretkey|apikey|privatekey",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_secret(name: str) -> bool:
    """True for a variable whose name says that its value is a secret: WANDB_API_KEY, dbPassword."""
    return _SECRET.search(_CAMEL.sub("_", name).replace(".", "_").replace("-", "_")) is not None


def secret_environment(spec: JobSpec) -> dict[str, str]:
    """The variables whose values nobody but the processes shall see."""
    return {name: value for name, value in spec.environment.items() if is_secret(name)}


def role_environment(spec: JobSpec, role: Role) -> dict[str, str]:
    """The variables of the processes of a role: what Arena sets, and over it what was asked for."""
    worker = spec.role(RoleName.WORKER) or spec.role(RoleName.CHIEF) or role
    own = {"workers": str(_workers(spec)), "gpus": str(worker.resources.gpus)}
    # Without it the container runtime shows all GPUs of the node to whoever asked for none.
    hidden = {"NVIDIA_VISIBLE_DEVICES": "void"} if not role.resources.gpus else {}
    return {**own, **hidden, **spec.environment}


def without_secrets(spec: JobSpec) -> JobSpec:
    """The request as it may be shown and kept: secret values and the content of files are empty."""
    hidden = dict.fromkeys(secret_environment(spec), "")
    files = tuple(file.model_copy(update={"content": type(file.content)("")}) for file in spec.config_files)
    return spec.model_copy(update={"environment": {**spec.environment, **hidden}, "config_files": files})


def _workers(spec: JobSpec) -> int:
    """As `--workers` said it: with PyTorch the master is one of them."""
    if spec.kind is JobKind.TF:
        role = spec.role(RoleName.WORKER) or spec.role(RoleName.CHIEF)
        return role.replicas if role else 0
    return sum(role.replicas for role in spec.roles if role.name in (RoleName.MASTER, RoleName.WORKER))

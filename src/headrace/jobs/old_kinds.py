"""PyTorchJobs and TFJobs of the operators before the training operator, which Arena installs to this day.

They have the same version (`kubeflow.org/v1`) as those of the training operator, and say with fields of `spec` what
these say with `spec.runPolicy`. Which of the two a cluster serves tells the schema alone.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import UnsupportedError
from headrace.jobs.pod_templates import literal
from headrace.jobs.policies import is_held, run_policy
from headrace.jobs.spec import JobKind, JobSpec

Content = dict[str, Any]

OLD = "v1 without runPolicy"
"""What stands for the version of such a kind."""

_GROUP = "pod-group.scheduling.sigs.k8s.io"
_RANKS = """
# The operator says this in words of torch.distributed; torchrun reads others.
export PET_NNODES="$WORLD_SIZE" PET_NODE_RANK="$RANK" PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"
exec "$@"
""".lstrip()


def policy_fields(spec: JobSpec) -> Content:
    """Retries and ends. Raises `UnsupportedError` for what these kinds cannot say."""
    if is_held(spec):
        raise UnsupportedError.of(
            f"--wait-warm, --queue and --suspend: {_TITLES[spec.kind]}s of an operator before the Kubeflow training "
            "operator, which this cluster serves, know nothing like it",
            hint="install the training operator, https://github.com/kubeflow/trainer/tree/release-1.9",
        )
    policy = run_policy(spec, processes=0)
    # These operators know no gangs: the scheduler is told by labels of the pods.
    policy.pop("schedulingPolicy", None)
    return policy


def with_gang(spec: JobSpec, template: Content, processes: int) -> Content:
    """The template, with the labels by which Arena tells the coscheduling plugin of a gang."""
    if not spec.gang:
        return template
    own = {f"{_GROUP}/name": f"{spec.kind.value}-{spec.name}", f"{_GROUP}/min-available": str(processes)}
    metadata = template["metadata"]
    return template | {"metadata": metadata | {"labels": metadata["labels"] | own}}


def ranked(command: list[str]) -> list[str]:
    """A command that finds torchrun's variables."""
    return ["sh", "-c", literal(_RANKS), "sh", *command]


_TITLES = {JobKind.PYTORCH: "PyTorchJob", JobKind.TF: "TFJob"}

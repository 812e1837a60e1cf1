"""The names of Kubeflow and Headrace: kinds, labels and annotations of jobs and of their pods."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.api.times import parse_time
from headrace.jobs.naming import KINDS
from headrace.jobs.spec import JobKind

Content = dict[str, Any]

DATA_COST_ANNOTATION = "headrace.io/data-cost"
"""Of a job: what reading cost it so far (JSON, docs/format/job-annotations.md)."""
KEPT_ANNOTATION = "headrace.io/kept"
"""Of a job: what is remembered of its pods (JSON, the same page)."""
CLEANING_ANNOTATION = "headrace.io/clean-pod-policy"
"""Of a job: the policy that it was given, where the keeper cleans up in its operator's place."""
LOG_LABEL = "headrace.io/kept-log"
"""Of a ConfigMap with a part of a log: the name of the job."""

TRAINING_VERSION = "kubeflow.org/v1"
"""What all kinds of the training operator are served as, and nothing else."""

_OLD_KINDS = {JobKind.PYTORCH: "pytorch-job-name", JobKind.TF: "tf-job-name"}
"""Labels of operators before the training operator, each of which has one kind of job."""
_JOB_NAMES = ("training.kubeflow.org/job-name", "mpi-job-name", "mpi_job_name", *_OLD_KINDS.values())
_ROLES = (
    *("training.kubeflow.org/job-role", "training.kubeflow.org/replica-type"),
    *("mpi-job-role", "mpi_role_type", "pytorch-replica-type", "tf-replica-type"),
)
_INDEXES = ("training.kubeflow.org/replica-index", "pytorch-replica-index", "tf-replica-index")
_OPERATOR = "training.kubeflow.org/operator-name"


@dataclass(frozen=True, slots=True)
class Words:
    """The names that belong to a kind of job."""

    operator: str
    """Who runs such jobs, for a person."""
    replica_specs: str
    """The field of its spec that holds the roles."""
    versions: tuple[str, ...]
    """Those that we can write, the best first."""
    container: str
    """The one of the job itself in its pods; operators put others beside it."""


WORDS: dict[JobKind, Words] = {
    JobKind.MPI: Words("the Kubeflow MPI operator", "mpiReplicaSpecs", ("v2beta1", "v1", "v1alpha1"), "mpi"),
    JobKind.PYTORCH: Words("the Kubeflow training operator", "pytorchReplicaSpecs", ("v1",), "pytorch"),
    JobKind.TF: Words("the Kubeflow training operator", "tfReplicaSpecs", ("v1",), "tensorflow"),
}
KIND_OF = {name: kind for kind, name in KINDS.items()}


def labels_of(content: Content) -> dict[str, str]:
    """The labels of an object."""
    return (content.get("metadata") or {}).get("labels") or {}


def annotations_of(content: Content) -> dict[str, str]:
    """The annotations of an object."""
    return (content.get("metadata") or {}).get("annotations") or {}


def job_name_of(pod: Content) -> str:
    """The job that a pod belongs to; empty when it is no job's."""
    return _first(labels_of(pod), _JOB_NAMES)


def role_word_of(pod: Content) -> str:
    """The role that the operator made a pod for: `worker`; a master is a worker to some operators."""
    labels = labels_of(pod)
    # Of a PyTorchJob's master both labels are there, and the type says more.
    kind = labels.get("training.kubeflow.org/replica-type")
    return (kind or _first(labels, _ROLES)).lower()


def index_of(pod: Content) -> int:
    """The index of a pod in its role, from 0."""
    given = _first(labels_of(pod), _INDEXES) or pod["metadata"]["name"].rpartition("-")[2]
    return int(given) if given.isdecimal() else 0


def kind_word_of(pod: Content) -> JobKind:
    """The kind of job that a pod belongs to, by the operator that made it."""
    labels = labels_of(pod)
    operator = labels.get(_OPERATOR, "").lower()
    if not operator and (old := [kind for kind, label in _OLD_KINDS.items() if label in labels]):
        return old[0]
    if operator.startswith("pytorchjob"):
        return JobKind.PYTORCH
    return JobKind.TF if operator.startswith("tfjob") else JobKind.MPI


def time_of(text: str | None) -> datetime | None:
    """A moment as Kubernetes writes it."""
    return parse_time(text) if text else None


def _first(labels: dict[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")

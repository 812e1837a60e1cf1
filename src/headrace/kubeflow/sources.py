"""The processes that know the cost of a job's reads: the mounts of its nodes, and the workers behind them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.jobs.naming import JOB_LABEL, MANAGED_BY
from headrace.kubeflow.job_views import pod_specs_of
from headrace.kubeflow.names import Content, annotations_of, job_name_of, labels_of, time_of
from headrace.kubeflow.pod_states import claims_of

METRICS_PORT = 9700
_DATASET = "headrace.io/dataset"
_COMPONENT = "app.kubernetes.io/component"
_MANAGER = "app.kubernetes.io/managed-by"


@dataclass(frozen=True, slots=True)
class Source:
    """A process whose counters are read."""

    name: str
    life: str
    pod: Content
    is_mount: bool
    began_before: bool


def claims_of_job(job: Content) -> tuple[str, ...]:
    """The claims that any of its pods names."""
    return tuple(dict.fromkeys(claim for spec in pod_specs_of(job) for claim in claims_of(spec)))


def sources_of(job: Content, pods: Sequence[Content], others: Iterable[Content]) -> list[Source]:
    """The processes behind the job's datasets. `pods` are the job's, `others` are all pods of its namespace."""
    datasets = set(claims_of_job(job))
    nodes = {str((pod.get("spec") or {}).get("nodeName") or "") for pod in pods} - {""}
    began = min((pod["metadata"].get("creationTimestamp") or "" for pod in pods), default="")
    found = (_source(pod, datasets, nodes, time_of(began)) for pod in others)
    return [each for each in found if each is not None]


def is_shared(job: Content, others: Iterable[Content]) -> bool:
    """True when another program reads the job's data now."""
    claims = set(claims_of_job(job))
    return any(
        not _is_of(job, pod) and claims & set(claims_of(pod.get("spec") or {}))
        for pod in others
        if (pod.get("status") or {}).get("phase") == "Running"
    )


def _source(
    pod: Content, datasets: Collection[str], nodes: Collection[str], began: datetime | None
) -> Source | None:
    dataset = annotations_of(pod).get(_DATASET) or labels_of(pod).get(_DATASET)
    component, node = labels_of(pod).get(_COMPONENT), (pod.get("spec") or {}).get("nodeName")
    is_mount = component == "mount" and node in nodes
    if dataset not in datasets or not (is_mount or component == "worker"):
        return None
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    first: Mapping[str, Any] = statuses[0] if statuses else {}
    started = time_of(((first.get("state") or {}).get("running") or {}).get("startedAt"))
    restarts = sum(int(each.get("restartCount") or 0) for each in statuses)
    return Source(
        name=f"{dataset}/{component}/{node if is_mount else pod['metadata']['name']}",
        life=f"{pod['metadata'].get('uid')}/{restarts}",
        pod=pod,
        is_mount=is_mount,
        began_before=began is None or started is None or started < began,
    )


def _is_of(job: Content, pod: Content) -> bool:
    """True for the job's own pods, and for what else was made for it."""
    labels, name = labels_of(pod), job["metadata"]["name"]
    if labels.get(_MANAGER) == MANAGED_BY and labels.get("app.kubernetes.io/instance") == name:
        return True
    return name in (labels.get(JOB_LABEL), job_name_of(pod))

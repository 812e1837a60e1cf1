"""The obstacles to a job on this cluster: asked of the API server, said as sentences. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import HeadraceError, MissingFileError, RefusedError
from headrace.jobs.known_words import taken_job
from headrace.jobs.naming import KINDS, record_name
from headrace.jobs.objects import job_object
from headrace.jobs.planning import placement_problems
from headrace.jobs.spec import JobKind, JobSpec
from headrace.kube.discovery import served_versions
from headrace.kubeflow.job_reader import Jobs
from headrace.kubeflow.names import WORDS, Content, labels_of
from headrace.kubeflow.nodes import room_of

_KUEUE = "kueue.x-k8s.io"
_GUIDES = {
    JobKind.MPI: "https://github.com/kubeflow/mpi-operator",
    JobKind.PYTORCH: "https://github.com/kubeflow/trainer/tree/release-1.9",
    JobKind.TF: "https://github.com/kubeflow/trainer/tree/release-1.9",
}
_WAITS_FOR_USER = "WaitForFirstConsumer"


async def problems_of(jobs: Jobs, spec: JobSpec) -> list[str]:
    """All that speaks against submitting the job, in the order in which one would mend it."""
    if await _unless_refused(jobs, "Namespace", None, spec.namespace) is _MISSING:
        return [f"there is no namespace {spec.namespace}: kubectl create namespace {spec.namespace}"]
    found = await _kind(jobs, spec)
    found += await _name(jobs, spec)
    found += await _priority(jobs, spec)
    found += await _queue(jobs, spec)
    for volume in spec.data:
        found += await _claim(jobs, spec.namespace, volume.claim)
    found += await _warmth(jobs, spec)
    return found + await _places(jobs, spec)


async def _kind(jobs: Jobs, spec: JobSpec) -> list[str]:
    version = await jobs.written(spec.kind)
    if version is None:
        words = WORDS[spec.kind]
        return [
            f"this cluster knows no {KINDS[spec.kind]} (kubeflow.org/{words.versions[0]}): install "
            f"{words.operator}, {_GUIDES[spec.kind]}"
        ]
    try:
        job_object(spec, version=version)
    except HeadraceError as error:
        return [f"{error.message}; {error.hint}" if error.hint else error.message]
    return []


async def _name(jobs: Jobs, spec: JobSpec) -> list[str]:
    taken = [each["kind"].lower() for each in await jobs.find(spec.namespace, spec.name, None)]
    if spec.kind.value in taken:
        return [taken_job(spec)]
    if taken:
        return [
            f"there is a {taken[0]} {spec.name} in {spec.namespace}, and commands could not tell them apart: "
            "choose another name"
        ]
    return [
        f"there is a {kind} {name} in {spec.namespace} that is none of a job: choose another name, or delete it"
        for kind, name in (("ConfigMap", record_name(spec.name, spec.kind)), ("Service", spec.name))
        if is_foreign(await _unless_refused(jobs, kind, spec.namespace, name), spec)
    ]


def is_foreign(found: Content | None, spec: JobSpec) -> bool:
    """True for an object that nobody made for a job of this name. An object that was left half made is ours to
    replace."""
    return bool(found) and labels_of(found or {}).get("release") != spec.name


async def _priority(jobs: Jobs, spec: JobSpec) -> list[str]:
    name = spec.priority_class
    if not name or await _unless_refused(jobs, "PriorityClass", None, name) is not _MISSING:
        return []
    return [f"there is no PriorityClass {name}: `kubectl get priorityclass` shows those that there are"]


async def _queue(jobs: Jobs, spec: JobSpec) -> list[str]:
    if not spec.queue:
        return []
    versions = (await served_versions(jobs.cluster, _KUEUE)).get("LocalQueue", ())
    if not versions:
        return [f"--queue {spec.queue}: Kueue is not on this cluster, and nobody would let the job in"]
    path = f"/apis/{_KUEUE}/{versions[0]}/namespaces/{spec.namespace}/localqueues/{spec.queue}"
    try:
        await jobs.cluster.read(path, f"read LocalQueue {spec.namespace}/{spec.queue}")
    except MissingFileError:
        return [
            f"there is no LocalQueue {spec.queue} in {spec.namespace}: `kubectl get localqueue` shows them"
        ]
    except RefusedError:
        return []
    return []


async def _claim(jobs: Jobs, namespace: str, name: str) -> list[str]:
    claim = await _unless_refused(jobs, "PersistentVolumeClaim", namespace, name)
    dataset = await _unless_refused(jobs, "Dataset", namespace, name)
    if claim is None:
        return []
    storage = (claim.get("spec") or {}).get("storageClassName")
    kind = await _unless_refused(jobs, "StorageClass", None, storage) if storage else None
    return claim_problems(name, namespace, claim, dataset or _MISSING, kind or {})


def claim_problems(
    name: str,
    namespace: str,
    claim: Mapping[str, Any],
    dataset: Mapping[str, Any],
    storage_class: Mapping[str, Any],
) -> list[str]:
    """The faults of a claim; empty for one that is not there."""
    if not claim:
        return [_no_claim(name, namespace, dataset)]
    if claim["metadata"].get("deletionTimestamp"):
        return [f"--data {name}: the claim is being deleted, and goes when its last user has ended"]
    phase = (claim.get("status") or {}).get("phase") or "Pending"
    if dataset and (said := _dataset_phase(dataset)) != "Bound":
        return [
            f"--data {name}: the dataset is {said}: `kubectl describe dataset {name} -n {namespace}` says why"
        ]
    # The claim of a dataset that is Bound may need a moment more to be so itself.
    if phase == "Bound" or (dataset and phase == "Pending"):
        return []
    if storage_class.get("volumeBindingMode") == _WAITS_FOR_USER and phase == "Pending":
        return []
    return [f"--data {name}: the claim is {phase}: `kubectl describe pvc {name} -n {namespace}` says why"]


def _no_claim(name: str, namespace: str, dataset: Mapping[str, Any]) -> str:
    if dataset:
        return (
            f"--data {name}: the dataset is {_dataset_phase(dataset)} and has no claim yet: "
            f"`kubectl describe dataset {name} -n {namespace}` says why"
        )
    return (
        f"--data {name}: there is neither a claim nor a dataset of that name in {namespace}: "
        f"`arena data list -n {namespace}` shows those that there are"
    )


def _dataset_phase(dataset: Mapping[str, Any]) -> str:
    return str((dataset.get("status") or {}).get("phase") or "NotBound")


async def _warmth(jobs: Jobs, spec: JobSpec) -> list[str]:
    if not spec.wait_warm_percent:
        return []
    found = [await _unless_refused(jobs, "Dataset", spec.namespace, each.claim) for each in spec.data]
    if any(each is not _MISSING for each in found):
        return []
    return ["--wait-warm: none of the job's volumes is a dataset, so nothing becomes warm: leave it out"]


async def _places(jobs: Jobs, spec: JobSpec) -> list[str]:
    try:
        nodes = await jobs.cluster.list("Node")
    except RefusedError:
        # Not everybody may read nodes; the scheduler tells what does not fit.
        return []
    return list(placement_problems(spec, [room_of(node) for node in nodes]))


_MISSING: Content = {}


async def _unless_refused(jobs: Jobs, kind: str, namespace: str | None, name: str) -> Content | None:
    """The object, `_MISSING` when it is not there, `None` when nobody says so: what may not be read is no problem."""
    try:
        return await jobs.cluster.get(kind, namespace, name) or _MISSING
    except RefusedError:
        return None

"""Everything that a job is on Kubernetes: the job itself first, and what belongs to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.jobs import mpi, pytorch, tf
from headrace.jobs.environments import secret_environment, without_secrets
from headrace.jobs.naming import HELD_QUEUE, QUEUE_LABEL, WAIT_WARM, full_name, part_metadata, record_name
from headrace.jobs.pod_templates import variable_key
from headrace.jobs.pod_volumes import file_key
from headrace.jobs.spec import JobKind, JobSpec
from headrace.jobs.tensorboard import tensorboard_objects

Content = dict[str, Any]

RECORD_KEY = "spec.json"
"""Of the ConfigMap: the request, without what is secret."""

_HIDDEN = "***"


def job_objects(spec: JobSpec, *, version: str = "") -> list[Content]:
    """The job, the ConfigMap with the request, the Secret if anything is secret, TensorBoard if it is wished.

    `version` is that of the job's kind, the best one when it is empty. The job owns the others (`owned`), so that they
    go with it. Raises `UnsupportedError`.
    """
    secret = secret_object(spec)
    return [
        job_object(spec, version=version),
        record_object(spec),
        *([secret] if secret else []),
        *tensorboard_objects(spec),
    ]


def job_object(spec: JobSpec, *, version: str = "") -> Content:
    """The MPIJob, PyTorchJob or TFJob alone."""
    if spec.kind is JobKind.MPI:
        return mpi.mpi_job(spec, version or mpi.VERSIONS[0])
    write = pytorch.pytorch_job if spec.kind is JobKind.PYTORCH else tf.tf_job
    return write(spec, version or "v1")


def record_object(spec: JobSpec) -> Content:
    """The ConfigMap `N-mpijob`."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": part_metadata(spec, record_name(spec.name, spec.kind)),
        "data": {
            "app": full_name(spec.kind, spec.name),
            RECORD_KEY: without_secrets(spec).model_dump_json(),
        },
    }


def recorded_spec(record: Mapping[str, Any]) -> JobSpec | None:
    """The request that such a ConfigMap keeps; None when it is of another program, or of a later release."""
    text = (record.get("data") or {}).get(RECORD_KEY)
    try:
        return JobSpec.model_validate_json(text) if text else None
    except ValueError:
        return None


def secret_object(spec: JobSpec) -> Content | None:
    """The Secret `N-mpijob`: values of variables whose names tell that they are secret, and the job's files."""
    data = {variable_key(name): value for name, value in secret_environment(spec).items()}
    files = enumerate(spec.config_files)
    data |= {file_key(number): file.content.get_secret_value() for number, file in files}
    if not data:
        return None
    metadata = part_metadata(spec, record_name(spec.name, spec.kind))
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": data}


def shown(thing: Content) -> Content:
    """The object as it may be printed: values of a Secret are stars."""
    if thing.get("kind") != "Secret":
        return thing
    return thing | {"stringData": dict.fromkeys(thing.get("stringData") or {}, _HIDDEN)}


def owned(thing: Content, job: Mapping[str, Any]) -> Content:
    """The object as one of this job, as the API server answered it: it goes when the job goes."""
    reference = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    return thing | {"metadata": thing["metadata"] | {"ownerReferences": [reference]}}


def warm_percent(job: Mapping[str, Any]) -> int:
    """The share of each dataset that a held job waits for, in percent; 0 when it does not wait for data."""
    text = ((job.get("metadata") or {}).get("annotations") or {}).get(WAIT_WARM, "")
    return min(int(text), 100) if text.isascii() and text.isdigit() else 0


def start_patch(job: Mapping[str, Any]) -> Content:
    """The merge patch that lets a job go which waited for its data: it starts, or enters its queue."""
    annotations = (job.get("metadata") or {}).get("annotations") or {}
    gone: Content = {"annotations": {WAIT_WARM: None, HELD_QUEUE: None}}
    if queue := annotations.get(HELD_QUEUE):
        return {"metadata": gone | {"labels": {QUEUE_LABEL: queue}}}
    return {"metadata": gone, "spec": {"runPolicy": {"suspend": False}}}

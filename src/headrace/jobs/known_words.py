"""The messages about a job that is missing, or there already: in Arena's words, which its SDK and programs look for."""

from __future__ import annotations

from headrace.jobs.spec import JobSpec

_LONGEST = 128


def missing_job(namespace: str, name: str) -> str:
    """There is no training job of that name."""
    return (
        f"Not found training job {name[:_LONGEST]} in namespace {namespace},"
        "please use 'arena submit' to create it."
    )


def taken_job(spec: JobSpec) -> str:
    """There is a training job of that name and kind."""
    return (
        f"the job {spec.name} is already exist, please delete it first. use 'arena delete {spec.name} "
        f"--type {spec.kind.value} -n {spec.namespace}', or choose another name"
    )

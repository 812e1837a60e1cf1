"""Which job, and which of its instances, a person means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from headrace.errors import AmbiguousJobError, ConfigError, MissingJobError
from headrace.jobs.spec import JobKind
from headrace.jobs.views import InstanceView, JobPhase, JobView


def the_one(jobs: Iterable[JobView], namespace: str, name: str, kind: JobKind | None = None) -> JobView:
    """The job of that name. Raises `MissingJobError`, or `AmbiguousJobError` when several kinds have it."""
    found = [
        job for job in jobs if job.name == name and job.namespace == namespace and kind in (None, job.kind)
    ]
    if not found:
        raise missing_job(namespace, name, kind)
    if len(found) > 1:
        kinds = ", ".join(sorted(job.kind.value for job in found))
        raise AmbiguousJobError.of(
            f"there are several training jobs {name} in namespace {namespace}: {kinds}",
            hint=f"name the kind by --type: --type {found[0].kind.value}",
        )
    return found[0]


def missing_job(namespace: str, name: str, kind: JobKind | None = None) -> MissingJobError:
    """The error, in Arena's words, which programs look for."""
    what = f" of the kind {kind.value}" if kind else ""
    return MissingJobError.of(
        f"Not found training job {name}{what} in namespace {namespace},please use 'arena submit' to create it.",
        hint="arena list --all-namespaces shows the jobs that there are",
    )


def the_instance(job: JobView, name: str) -> InstanceView:
    """The instance that a person means: of that name, or the chief. Raises `ConfigError`, `MissingJobError`."""
    if not job.instances:
        waits = f": {job.reason}" if job.reason else ""
        raise MissingJobError.of(
            f"job {job.name} has no instance yet{waits}",
            hint=f"arena get {job.name} -e says what it waits for",
        )
    known = ", ".join(each.name for each in job.instances)
    if name:
        # A part is enough where it is clear: worker-0.
        wanted = [
            each for each in job.instances if name in (each.name, each.name.removeprefix(f"{job.name}-"))
        ]
        if not wanted:
            raise ConfigError.of(f"job {job.name} has no instance {name[:128]}", hint=f"known are {known}")
        return wanted[0]
    if job.chief is not None:
        return job.chief
    if len(job.instances) > 1:
        raise ConfigError.of(
            f"job {job.name} has several instances, and none is its chief", hint=f"name one by -i: {known}"
        )
    return job.instances[0]


def prunable(jobs: Iterable[JobView], older_than_s: int, now: datetime) -> Sequence[JobView]:
    """Jobs that ended so long ago. What waits or runs is never among them, however old it is."""
    moment = now - timedelta(seconds=older_than_s)
    return [job for job in jobs if job.phase.has_ended and (job.ended or job.created) <= moment]


def exit_code(job: JobView) -> int:
    """What a command answers that waited for the end of a job: 0 when it succeeded, else 1."""
    return 0 if job.phase is JobPhase.SUCCEEDED else 1


def matching(jobs: Iterable[JobView], statuses: Sequence[JobPhase]) -> list[JobView]:
    """The jobs in one of these states, or all when none is named; the newest first."""
    found = [job for job in jobs if not statuses or job.phase in statuses]
    return sorted(found, key=lambda job: (job.created, job.name), reverse=True)

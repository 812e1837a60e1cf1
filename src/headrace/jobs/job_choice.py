"""The job, and the instances of it, that a person means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from headrace.errors import AmbiguousJobError, ConfigError, MissingJobError
from headrace.jobs.known_words import missing_job
from headrace.jobs.spec import JobKind
from headrace.jobs.views import InstanceView, JobPhase, JobView

_Job = TypeVar("_Job")


def only_job(
    found: Sequence[_Job], kind_of: Callable[[_Job], JobKind], namespace: str, name: str, kind: JobKind | None
) -> _Job:
    """The job that is meant, of those with that name. Raises `MissingJobError`, or `AmbiguousJobError` when several
    kinds have it.
    """
    if not found:
        among = f" with its kind ({kind.value} was asked for)" if kind else ""
        raise MissingJobError.of(
            missing_job(namespace, name),
            hint=f"arena list --all-namespaces shows each job that there is{among}",
        )
    if len(found) > 1:
        kinds = [kind_of(job).value for job in found]
        raise AmbiguousJobError.of(
            f"there are several training jobs {name} in namespace {namespace}: {', '.join(kinds)}",
            hint=f"name the kind by --type: --type {kinds[0]}",
        )
    return found[0]


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
    """Jobs that ended so long ago. Jobs that wait or run are never among them, however old they are."""
    moment = now - timedelta(seconds=older_than_s)
    return [job for job in jobs if job.phase.has_ended and (job.ended or job.created) <= moment]


def exit_code(job: JobView) -> int:
    """The exit code of a command that waited for the end of a job: 0 when it succeeded, else 1."""
    return 0 if job.phase is JobPhase.SUCCEEDED else 1


def matching(jobs: Iterable[JobView], statuses: Sequence[JobPhase]) -> list[JobView]:
    """The jobs in one of these states, or all when none is named; the newest first."""
    found = [job for job in jobs if not statuses or job.phase in statuses]
    return sorted(found, key=lambda job: (job.created, job.name), reverse=True)

"""How a job stands, by what its operator says and what its pods show. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.jobs.naming import QUEUE_LABEL
from headrace.jobs.objects import warm_percent
from headrace.jobs.spec import JobKind
from headrace.jobs.views import InstanceView, JobPhase
from headrace.kubeflow.names import WORDS, Content, labels_of, time_of

_LAUNCHER_STATUS = {
    "Succeeded": JobPhase.SUCCEEDED,
    "Failed": JobPhase.FAILED,
    "Active": JobPhase.RUNNING,
}


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job's phase, with the moments that belong to it and why it is so."""

    phase: JobPhase
    reason: str = ""
    started: datetime | None = None
    ended: datetime | None = None


def phase_of(job: Content) -> JobPhase:
    """The operator's phase of it, in Arena's words; its pods may know better."""
    if old := (job.get("status") or {}).get("launcherStatus"):
        return _LAUNCHER_STATUS.get(str(old), JobPhase.PENDING)
    for kind, phase in (("Succeeded", JobPhase.SUCCEEDED), ("Failed", JobPhase.FAILED)):
        if _is_true(job, kind):
            return phase
    if is_suspended(job):
        return JobPhase.QUEUING if QUEUE_LABEL in labels_of(job) else JobPhase.SUSPENDED
    if _is_true(job, "Queuing"):
        return JobPhase.QUEUING
    return JobPhase.RUNNING if _is_true(job, "Running") else JobPhase.PENDING


def status_of(kind: JobKind, job: Content, instances: Sequence[InstanceView]) -> JobStatus:
    """How the job stands. One that runs is PENDING again while one of its pods is."""
    phase = phase_of(job)
    ended = ended_at(job) if phase.has_ended else None
    started = began_running_at(job, ended)
    if phase is JobPhase.FAILED:
        return JobStatus(phase, _failure(job, instances), started, ended)
    if phase.has_ended:
        return JobStatus(phase, "", started, ended)
    if phase in (JobPhase.SUSPENDED, JobPhase.QUEUING):
        return JobStatus(phase, _held_back(job, phase))
    waiting = [each for each in instances if _waits(each)]
    if waiting:
        return JobStatus(JobPhase.PENDING, _wait(waiting), started)
    if phase is JobPhase.PENDING and not instances:
        return JobStatus(phase, f"it has no pods yet: {WORDS[kind].operator} has not made them")
    return JobStatus(phase, _trouble(instances), started)


def is_suspended(job: Content) -> bool:
    """True when its operator is told to hold it back."""
    return bool((_spec(job).get("runPolicy") or {}).get("suspend"))


def began_running_at(job: Content, ended: datetime | None) -> datetime | None:
    """The time at which the operator saw all pods run.

    The condition keeps its moment when the job has ended; that of the end is there when nobody saw the pods run.
    """
    running = condition_of(job, "Running")
    at = time_of(running.get("lastTransitionTime"))
    if at is None or is_suspended(job) or (running.get("status") != "True" and ended and at >= ended):
        return None
    return at


def ended_at(job: Content) -> datetime | None:
    """The time at which it succeeded or failed."""
    status = job.get("status") or {}
    if status.get("completionTime"):
        return time_of(status["completionTime"])
    ends = (condition_of(job, kind) for kind in ("Succeeded", "Failed"))
    return next(
        (time_of(each.get("lastTransitionTime")) for each in ends if each.get("status") == "True"), None
    )


def is_over_for_operator(job: Content) -> bool:
    """True when the operator does nothing for it any more. An evicted MPIJob has failed, and goes on all the same
    (kubeflow/mpi-operator#647)."""
    status = job.get("status") or {}
    return phase_of(job).has_ended and bool(status.get("completionTime") or status.get("launcherStatus"))


def condition_of(job: Content, kind: str) -> Mapping[str, Any]:
    """The condition of one type in its status; empty when there is none."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    found: Mapping[str, Any] = next((each for each in conditions if each.get("type") == kind), {})
    return found


def _is_true(job: Content, kind: str) -> bool:
    return bool(condition_of(job, kind).get("status") == "True")


def _spec(job: Content) -> Mapping[str, Any]:
    return job.get("spec") or {}


def _waits(instance: InstanceView) -> bool:
    return (
        instance.started is None
        and instance.exit_code is None
        and instance.status not in (*("RUNNING", "SUCCEEDED", "FAILED", "Terminating"),)
    )


def _wait(waiting: Sequence[InstanceView]) -> str:
    told = [each for each in waiting if each.reason] or list(waiting)
    more = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
    return (
        f"{told[0].name} waits{more}: {told[0].reason or 'its volumes and containers are being made ready'}"
    )


def _trouble(instances: Sequence[InstanceView]) -> str:
    """A fault of a part of a running job, by which the job may hang or fail."""
    struck = [each for each in instances if each.reason and each.status in ("RUNNING", "Terminating")]
    more = f" (and {len(struck) - 1} more)" if len(struck) > 1 else ""
    return f"{struck[0].name}{more}: {struck[0].reason}" if struck else ""


def _held_back(job: Content, phase: JobPhase) -> str:
    wish = warm_percent(job)
    if wish and phase is JobPhase.SUSPENDED:
        return f"it starts once {wish} % of its data is cached"
    if phase is JobPhase.QUEUING:
        queue = labels_of(job).get(QUEUE_LABEL, "")
        return f"the queue {queue} has not let it in" if queue else "its queue has not let it in"
    return "it is suspended: `arena release` starts it"


def _failure(job: Content, instances: Sequence[InstanceView]) -> str:
    culprit = _culprit(instances)
    if culprit:
        return f"{culprit.name}: {culprit.reason}"
    said = condition_of(job, "Failed")
    words = [str(said[key]) for key in ("reason", "message") if said.get(key)]
    return ": ".join(words) or "its launcher failed, and nothing says why"


def _culprit(instances: Sequence[InstanceView]) -> InstanceView | None:
    """Whose failure says most: another than the chief, since a chief fails with those that it waits for.

    One that Kubernetes is taking away with its node may be there for a while.
    """
    failed = [each for each in instances if each.status in ("FAILED", "Terminating") and each.reason]
    return min(failed, key=lambda each: each.is_chief) if failed else None

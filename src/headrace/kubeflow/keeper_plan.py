"""The keeper's work for one job, and its memory of it. Pure.

A job needs some things that its operator does not do: a start when its data is warm; an end when it cannot start; at
its end its logs kept and its pods gone, since a claim is held by every pod that names it, also by one that has ended;
and to go itself some day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headrace.jobs.naming import STARTING_TIMEOUT, TTL
from headrace.jobs.objects import warm_percent
from headrace.jobs.spec import CleanPolicy
from headrace.jobs.views import InstanceView, JobPhase
from headrace.jobs.warmth import Warmth, is_warm
from headrace.kubeflow.disruptions import disruption_of
from headrace.kubeflow.job_views import all_started, instances_of
from headrace.kubeflow.names import (
    CLEANING_ANNOTATION,
    KIND_OF,
    TRAINING_VERSION,
    Content,
    annotations_of,
    time_of,
)
from headrace.kubeflow.notes import KeptInstance, Note, note_of
from headrace.kubeflow.phases import ended_at, is_over_for_operator, is_suspended, phase_of
from headrace.kubeflow.pod_states import (
    claims_of,
    exit_code_of,
    has_ended,
    has_ended_by_itself,
    instance_of,
    is_leaving,
)
from headrace.kubeflow.run_policies import clean_policy_of

LOG_PATIENCE = timedelta(minutes=2)
"""A log of an ended job that cannot be read for so long is given up: volumes are worth more."""
WARMTH_POLL_S = 5.0
RUNNING_POLL_S = 15.0
_SOON_S = 2.0


@dataclass(frozen=True, slots=True)
class Start:
    """The operator may start the job."""


@dataclass(frozen=True, slots=True)
class TakeOverCleaning:
    """Pods that have ended are left to the keeper: the operator would delete them at once, with their logs."""


@dataclass(frozen=True, slots=True)
class HoldBack:
    """The operator has the job end what still runs of it."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The job has failed, for a reason that its operator does not know."""

    message: str


@dataclass(frozen=True, slots=True)
class KeepLog:
    """The log of a pod is put where it outlives the pod. One that is leaving is read to its end."""

    pod: Content


@dataclass(frozen=True, slots=True)
class DeletePod:
    """A pod that has ended goes, and with it what it holds."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """The job's time is over."""


Step = Start | TakeOverCleaning | HoldBack | Fail | KeepLog | DeletePod | DeleteJob


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps to take now, the notes to keep, and the time to reconcile again (`None`: when something changes)."""

    note: Note
    steps: tuple[Step, ...] = ()
    requeue_after_s: float | None = None


def decide(
    job: Content, pods: Sequence[Content], gone: Iterable[Content], warmth: Sequence[Warmth], now: datetime
) -> Plan:
    """The plan for a job. `pods` are its own; `gone` are those that went since the last pass, as they were last."""
    note = note_of(job)
    if job["metadata"].get("deletionTimestamp"):
        return Plan(note)
    phase = phase_of(job)
    note = _remembered(job, phase, note, pods, gone)
    if phase.has_ended:
        return _at_the_end(job, pods, note, now)
    cleaning = (TakeOverCleaning(),) if _deletes_ended_pods(job) else ()
    logs = (*cleaning, *(KeepLog(pod) for pod in pods if _wants_log(pod, note)))
    if not note.failing and (late := _lateness(job, note, now)):
        note = replace(note, failing=late)
    if note.failing:
        return Plan(note, (*logs, *_failing(job, pods, note)), _SOON_S)
    if warm_percent(job) and is_suspended(job):
        starts = is_warm(warm_percent(job), warmth)
        return Plan(note, (*logs, Start()) if starts else logs, WARMTH_POLL_S)
    return Plan(note, logs, RUNNING_POLL_S if pods else None)


def ttl_of(job: Content) -> timedelta | None:
    """The time that the job stays when it has ended; `None`: for ever."""
    return _seconds(job, TTL)


def _seconds(job: Content, key: str) -> timedelta | None:
    text = annotations_of(job).get(key, "")
    return timedelta(seconds=int(text)) if text.isascii() and text.isdigit() else None


def _lateness(job: Content, note: Note, now: datetime) -> str:
    """Why a job that has never run all its pods is to fail by now; empty for one that has, or that has time."""
    allowed = _seconds(job, STARTING_TIMEOUT)
    began = time_of((job.get("status") or {}).get("startTime"))
    if allowed is None or began is None or note.started or is_suspended(job) or now - began < allowed:
        return ""
    return f"its processes did not start within {allowed.total_seconds():.0f} s"


def _failing(job: Content, pods: Sequence[Content], note: Note) -> tuple[Step, ...]:
    """An operator that is told of the end before its pods are gone leaves them alone."""
    if not is_suspended(job):
        return (HoldBack(),)
    return () if pods else (Fail(note.failing),)


def _remembered(
    job: Content, phase: JobPhase, note: Note, pods: Iterable[Content], gone: Iterable[Content]
) -> Note:
    there = list(pods)
    uids = {_uid(pod) for pod in there}
    goes_all = phase.has_ended and not is_over_for_operator(job)
    is_failing = any(_has_failed_by_itself(pod) for pod in there)
    found = note
    for pod in (*there, *gone):
        uid = _uid(pod)
        if not (goes_all or has_ended(pod) or is_leaving(pod) or uid not in uids):
            continue
        before = found.of(uid)
        # What was seen while it ran says more than what is left of it later.
        if before is None:
            view = _last_view(pod, phase, is_failing=is_failing)
            found = found.with_instance(KeptInstance(view, uid))
        elif before.view.exit_code is None and has_ended(pod):
            view = replace(before.view, exit_code=exit_code_of(pod))
            found = found.with_instance(replace(before, view=view))
    if found.started is None and phase is JobPhase.RUNNING:
        found = replace(found, started=all_started(job, instances_of(KIND_OF[job["kind"]], there, found)))
    return _with_chief(job, found, there)


def _last_view(pod: Content, phase: JobPhase, *, is_failing: bool) -> InstanceView:
    view = instance_of(pod)
    if has_ended(pod) and (not is_leaving(pod) or has_ended_by_itself(pod)):
        return view
    if phase is JobPhase.SUCCEEDED:
        return replace(view, status="SUCCEEDED", reason="")
    if disruption_of(pod):
        return replace(view, status="FAILED")
    # An operator may delete the others before it says that the job has failed.
    if phase is JobPhase.RUNNING and view.started and not is_failing:
        return replace(view, status="FAILED", reason=view.reason or "it was deleted while it ran")
    return replace(view, status="TERMINATED", reason="")


def _has_failed_by_itself(pod: Content) -> bool:
    return (pod.get("status") or {}).get("phase") == "Failed" and has_ended_by_itself(pod)


def _with_chief(job: Content, note: Note, pods: Sequence[Content]) -> Note:
    """Marks the chief, so that it is kept where there is no room for all."""
    chief = next((each for each in instances_of(KIND_OF[job["kind"]], pods, note) if each.is_chief), None)
    name = chief.name if chief else ""
    marked = (
        replace(each, view=replace(each.view, is_chief=each.view.name == name)) for each in note.instances
    )
    return replace(note, instances=tuple(marked))


def _at_the_end(job: Content, pods: Sequence[Content], note: Note, now: datetime) -> Plan:
    ended = ended_at(job) or now
    is_evicted = not is_over_for_operator(job)
    # An evicted job's pods are about to be ended: what they have printed is kept before.
    logs = tuple(
        KeepLog(pod) for pod in pods if _wants_log(pod, note) or (is_evicted and _lacks_log(pod, note))
    )
    note = replace(note, asked=note.asked or now) if logs else note
    if logs and now - (note.asked or now) < LOG_PATIENCE:
        return Plan(note, logs, _SOON_S)
    if is_evicted and not is_suspended(job):
        return Plan(note, (HoldBack(),), _SOON_S)
    deletions = tuple(
        DeletePod(pod["metadata"]["name"], _uid(pod))
        for pod in pods
        if has_ended(pod)
        and not is_leaving(pod)
        and (claims_of(pod.get("spec") or {}) or _is_cleaned_by_keeper(job))
    )
    ttl = ttl_of(job)
    if ttl is None:
        return Plan(note, deletions, _SOON_S if deletions else None)
    if now - ended >= ttl:
        return Plan(note, (*deletions, DeleteJob()), _SOON_S)
    return Plan(note, deletions, _SOON_S if deletions else (ttl - (now - ended)).total_seconds())


def _deletes_ended_pods(job: Content) -> bool:
    """True when the operator would delete every pod the moment that the job has ended. Of the two operators only the
    training operator does, whose kinds are all of v1: the MPI operator leaves its launcher."""
    return job["apiVersion"] == TRAINING_VERSION and clean_policy_of(job) == CleanPolicy.ALL


def _is_cleaned_by_keeper(job: Content) -> bool:
    return annotations_of(job).get(CLEANING_ANNOTATION) == CleanPolicy.ALL


def _wants_log(pod: Content, note: Note) -> bool:
    return (has_ended(pod) or is_leaving(pod)) and _lacks_log(pod, note)


def _lacks_log(pod: Content, note: Note) -> bool:
    kept = note.of(_uid(pod))
    return kept is None or not kept.has_log


def _uid(pod: Content) -> str:
    return str(pod["metadata"].get("uid") or "")

"""Operations on datasets: when each begins, how far it is, how it ended. A pure state machine for all four kinds.

Pending (waiting for an operation before it, then for its dataset) → Executing → Complete or Failed. One with a schedule
begins anew each time that it is due. What waits too long fails; what follows on something that failed fails with it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime

from headrace.api.conditions import OperationConditionType
from headrace.api.dataset import DatasetStatus
from headrace.api.formats import format_bytes
from headrace.api.kinds import Operation, kind_of
from headrace.api.names import FINALIZERS
from headrace.api.operations import OperationPhase, OperationStatus, Policy
from headrace.api.schedules import parse_schedule
from headrace.plan.conditions import condition_of
from headrace.plan.cron import last_due, next_due
from headrace.plan.events import Event
from headrace.plan.operation_scene import ENDED, JobFacts, JobState, OperationScene, Standing
from headrace.plan.operation_status import operation_events, operation_status
from headrace.plan.orders import Job, dataset_keys, job_of
from headrace.plan.reasons import Reason, Wait, deadline_s, wait

ONCE = "once"
_RUNNING_LOOK_S = 2.0
_WAITING_LOOK_S = 10.0
_LONGEST_LOOK_S = 3600.0


@dataclass(frozen=True, slots=True)
class OperationPlan:
    """What to do for an operation now. `start` is ordered once a `run`; the same run again goes on where it was."""

    status: OperationStatus
    start: Job | None = None
    run: str = ""
    cancel: bool = False
    delete: bool = False
    events: tuple[Event, ...] = ()
    finalizers: tuple[str, ...] = ()
    next_look_s: float = _WAITING_LOOK_S


def plan_operation(scene: OperationScene, now: datetime) -> OperationPlan:
    """What is to be done and said."""
    operation = scene.operation
    before = scene.before
    if operation.metadata.deletion_timestamp is not None:
        return _leaving(scene, before)
    state = _next(scene, before, now)
    status = operation_status(scene, state, now)
    return OperationPlan(
        status=status,
        start=state.start,
        run=state.run,
        cancel=_is_given_up(status, state),
        delete=_is_expired(operation, status, now),
        events=tuple(operation_events(kind_of(operation).name, before, status)),
        finalizers=(FINALIZERS[kind_of(operation).name],),
        next_look_s=_next_look_s(operation, status, now),
    )


def _is_given_up(status: OperationStatus, state: Standing) -> bool:
    """True for work that is still there although its run has ended."""
    running = state.job is not None and state.job.state in {JobState.STARTING, JobState.RUNNING}
    return running and status.phase in ENDED


def _leaving(scene: OperationScene, before: OperationStatus) -> OperationPlan:
    """Work that goes on is cancelled first."""
    kind = kind_of(scene.operation).name
    running = scene.job is not None and scene.job.state in {JobState.STARTING, JobState.RUNNING}
    return OperationPlan(
        before,
        cancel=running,
        run=scene.job.run if scene.job else "",
        finalizers=(FINALIZERS[kind],) if running else (),
        next_look_s=_RUNNING_LOOK_S,
    )


def _next(scene: OperationScene, before: OperationStatus, now: datetime) -> Standing:
    phase = before.phase or OperationPhase.NONE
    policy, schedule = _policy(scene.operation)
    if policy is Policy.ON_EVENT:
        failed = wait(Reason.POLICY_NOT_SUPPORTED, f"{scene.operation.name} has policy OnEvent")
        return Standing(OperationPhase.FAILED, ONCE, failed=failed)
    if policy is Policy.CRON and schedule is not None:
        return _next_of_cron(scene, before, schedule, now)
    if phase in ENDED:
        return Standing(phase, ONCE, job=_unended(scene, ONCE))
    return _advanced(scene, before, phase, ONCE, now)


def _next_of_cron(scene: OperationScene, before: OperationStatus, schedule: str, now: datetime) -> Standing:
    """A run that goes on goes on; then the last moment that was due and not served begins another one."""
    phase = before.phase or OperationPhase.NONE
    scheduled = before.last_schedule_time
    if scheduled is not None and phase not in ENDED:
        return dataclasses.replace(
            _advanced(scene, before, phase, _run_of(scheduled), now), scheduled=scheduled
        )
    plan = parse_schedule(schedule)
    after = scheduled or scene.operation.metadata.creation_timestamp or now
    due = last_due(plan, after, now)
    if due is not None:
        fresh = dataclasses.replace(scene, job=None)
        return dataclasses.replace(
            _advanced(fresh, before, OperationPhase.NONE, _run_of(due), now), scheduled=due
        )
    if scheduled is None and next_due(plan, now) is None:
        never = wait(Reason.SCHEDULE_NEVER_DUE, f"the schedule of {scene.operation.name} is never due")
        return Standing(OperationPhase.FAILED, "", failed=never)
    waits = OperationPhase.PENDING if scheduled is None else phase
    run = _run_of(scheduled) if scheduled else ""
    return Standing(waits, run, scheduled=scheduled, job=_unended(scene, run))


def _unended(scene: OperationScene, run: str) -> JobFacts | None:
    """What is still there of a run that was given up."""
    job = scene.job
    is_there = job is not None and job.run == run and job.state in {JobState.STARTING, JobState.RUNNING}
    return job if is_there else None


def _run_of(moment: datetime) -> str:
    return str(int(moment.timestamp()))


def _advanced(
    scene: OperationScene, before: OperationStatus, phase: OperationPhase, run: str, now: datetime
) -> Standing:
    """One run, a step further."""
    job = scene.job if scene.job is not None and scene.job.run == run else None
    if job is not None:
        return _of_job(scene, run, job, now)
    waiting = _waiting(scene)
    made = waiting or job_of(scene.operation, scene.surroundings)
    if isinstance(made, Wait):
        if _is_overdue(before, made, now):
            return Standing(OperationPhase.FAILED, run, failed=made)
        return Standing(OperationPhase.PENDING, run, waiting=made)
    hindrance = f" and cannot begin yet, {scene.hindrance}" if scene.hindrance else ""
    starting = wait(Reason.OPERATION_STARTING, f"{scene.operation.name} was ordered{hindrance}")
    if _is_overdue(before, starting, now):
        return Standing(OperationPhase.FAILED, run, failed=starting)
    # Work that is gone is ordered again under its own name: it goes on.
    again = phase if phase is OperationPhase.EXECUTING else OperationPhase.PENDING
    return Standing(again, run, start=made, waiting=starting)


def _given_up(job: JobFacts, now: datetime) -> Wait | None:
    """What has kept it from going on for longer than it may."""
    if job.trouble is None or job.trouble.since is None:
        return None
    limit = deadline_s(job.trouble.waiting.reason)
    is_over = limit is not None and (now - job.trouble.since).total_seconds() >= limit
    return job.trouble.waiting if is_over else None


def _of_job(scene: OperationScene, run: str, job: JobFacts, now: datetime) -> Standing:
    if job.state in {JobState.STARTING, JobState.RUNNING}:
        if given_up := _given_up(job, now):
            return Standing(OperationPhase.FAILED, run, failed=given_up, job=job)
        return Standing(OperationPhase.EXECUTING, run, job=job)
    if job.state is JobState.FAILED:
        what = f"{scene.operation.name}: {job.message or 'it failed and says no more'}"
        return Standing(OperationPhase.FAILED, run, failed=wait(Reason.OPERATION_FAILED, what), job=job)
    incomplete = _incomplete(scene, job)
    if incomplete:
        return Standing(OperationPhase.FAILED, run, failed=incomplete, job=job)
    return Standing(OperationPhase.COMPLETE, run, job=job)


def _incomplete(scene: OperationScene, job: JobFacts) -> Wait | None:
    """What is lacking of work that says it is done."""
    if job.is_whole:
        return None
    reason = Reason.LOAD_INCOMPLETE if kind_of(scene.operation).name == "DataLoad" else Reason.COPY_INCOMPLETE
    parts = [f"{format_bytes(job.done_bytes)} of {format_bytes(job.total_bytes)} are there"]
    if job.did_not_fit_bytes:
        parts.append(f"{format_bytes(job.did_not_fit_bytes)} did not fit")
    if job.faults:
        parts.append(f"{job.faults} files failed")
    return wait(
        reason, f"{scene.operation.name}: {', '.join(parts)}{f'; {job.message}' if job.message else ''}"
    )


def _waiting(scene: OperationScene) -> Wait | None:
    """What must be before the work begins."""
    return _waiting_for_predecessor(scene) or _waiting_for_dataset(scene)


def _waiting_for_predecessor(scene: OperationScene) -> Wait | None:
    after = scene.operation.spec.run_after
    if after is None:
        return None
    name = f"{after.kind} {after.namespace or scene.operation.namespace or 'default'}/{after.name}"
    if scene.predecessor is None:
        return wait(Reason.PREDECESSOR_MISSING, f"{name} does not exist")
    phase = (scene.predecessor.status or OperationStatus()).phase
    if phase is OperationPhase.FAILED:
        return wait(Reason.PREDECESSOR_FAILED, f"{name} failed")
    if phase is not OperationPhase.COMPLETE:
        return wait(Reason.PREDECESSOR_RUNNING, f"{name} has not ended")
    return None


def _waiting_for_dataset(scene: OperationScene) -> Wait | None:
    for key in dataset_keys(scene.operation):
        dataset = scene.surroundings.datasets.get(key)
        if dataset is None:
            return wait(Reason.DATASET_NOT_READY, f"dataset {key} does not exist")
        ready = condition_of((dataset.status or DatasetStatus()).conditions, "Ready")
        if ready is None or ready.status != "True":
            why = f" ({ready.reason})" if ready and ready.reason else ""
            return wait(Reason.DATASET_NOT_READY, f"dataset {key} is not ready{why}")
    return None


def _is_overdue(before: OperationStatus, waiting: Wait, now: datetime) -> bool:
    limit = deadline_s(waiting.reason)
    if limit is None:
        return False
    said = condition_of(before.conditions, OperationConditionType.WAITING)
    since = said.last_probe_time if said and said.status == "True" and said.reason == waiting.reason else None
    return limit == 0 or (since is not None and (now - since).total_seconds() >= limit)


def _policy(operation: Operation) -> tuple[Policy, str | None]:
    spec = operation.spec
    return getattr(spec, "policy", Policy.ONCE), getattr(spec, "schedule", None)


def _is_expired(operation: Operation, status: OperationStatus, now: datetime) -> bool:
    left = _left_s(operation, status, now)
    return left is not None and left <= 0


def _left_s(operation: Operation, status: OperationStatus, now: datetime) -> float | None:
    """Seconds until a finished operation is deleted; `None` when it is not."""
    ttl = operation.spec.ttl_seconds_after_finished
    if ttl is None or _policy(operation)[0] is not Policy.ONCE or status.phase not in ENDED:
        return None
    ended = [
        each for each in status.conditions if each.type in {"Complete", "Failed"} and each.status == "True"
    ]
    since = next((each.last_transition_time for each in ended), None)
    return None if since is None else ttl - (now - since).total_seconds()


def _next_look_s(operation: Operation, status: OperationStatus, now: datetime) -> float:
    if status.phase is OperationPhase.EXECUTING:
        return _RUNNING_LOOK_S
    policy, schedule = _policy(operation)
    looks = [_LONGEST_LOOK_S if status.phase in ENDED else _WAITING_LOOK_S]
    if policy is Policy.CRON and schedule:
        waits = status.phase in ENDED or status.last_schedule_time is None
        due = next_due(parse_schedule(schedule), now) if waits else None
        looks = [min(max((due - now).total_seconds(), 1.0), _LONGEST_LOOK_S)] if due else looks
    left = _left_s(operation, status, now)
    return min([*looks, max(left, 1.0)] if left is not None else looks)

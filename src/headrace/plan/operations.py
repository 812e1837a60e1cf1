"""Operations on datasets: when each begins, how far it is, how it ended. A pure state machine for all four kinds.

Pending (waiting for an operation before it, then for its dataset) → Executing → Complete or Failed. One with a schedule
begins anew each time that it is due. An operation that waits too long fails; one that follows on a failed one fails
with it.
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
from headrace.plan.condition_times import condition_of
from headrace.plan.cron import last_due, next_due
from headrace.plan.dataset_events import Event
from headrace.plan.declared import is_closing, is_leaving
from headrace.plan.job_specs import Job, dataset_keys, job_of
from headrace.plan.operation_inputs import ENDED, JobFacts, JobState, OperationInputs, RunStatus
from headrace.plan.operation_status import operation_events, operation_status
from headrace.plan.reasons import Reason, Wait, deadline_s, wait

ONCE = "once"
_RUNNING_POLL_S = 2.0
_WAITING_POLL_S = 10.0
_LONGEST_POLL_S = 3600.0


@dataclass(frozen=True, slots=True)
class OperationPlan:
    """The next work for an operation. `start` is ordered once a `run`; the same run again goes on where it was."""

    status: OperationStatus
    start: Job | None = None
    run: str = ""
    cancel: bool = False
    delete: bool = False
    events: tuple[Event, ...] = ()
    finalizers: tuple[str, ...] = ()
    requeue_after_s: float = _WAITING_POLL_S


def plan_operation(inputs: OperationInputs, now: datetime) -> OperationPlan:
    """The next work and status of an operation."""
    operation = inputs.operation
    before = inputs.before
    if operation.metadata.deletion_timestamp is not None:
        return _leaving(inputs, before)
    state = _next(inputs, before, now)
    status = operation_status(inputs, state, now)
    return OperationPlan(
        status=status,
        start=state.start,
        run=state.run,
        cancel=_is_given_up(status, state),
        delete=_is_expired(operation, status, now),
        events=tuple(operation_events(kind_of(operation).name, before, status)),
        finalizers=(FINALIZERS[kind_of(operation).name],),
        requeue_after_s=_requeue_after_s(operation, status, now),
    )


def _is_given_up(status: OperationStatus, state: RunStatus) -> bool:
    """True for work that is still there although its run has ended."""
    running = state.job is not None and state.job.state in {JobState.STARTING, JobState.RUNNING}
    return running and status.phase in ENDED


def _leaving(inputs: OperationInputs, before: OperationStatus) -> OperationPlan:
    """Work that goes on is cancelled first."""
    kind = kind_of(inputs.operation).name
    running = inputs.job is not None and inputs.job.state in {JobState.STARTING, JobState.RUNNING}
    return OperationPlan(
        before,
        cancel=running,
        run=inputs.job.run if inputs.job else "",
        finalizers=(FINALIZERS[kind],) if running else (),
        requeue_after_s=_RUNNING_POLL_S,
    )


def _next(inputs: OperationInputs, before: OperationStatus, now: datetime) -> RunStatus:
    phase = before.phase or OperationPhase.NONE
    policy, schedule = _policy(inputs.operation)
    if policy is Policy.ON_EVENT:
        failed = wait(Reason.POLICY_NOT_SUPPORTED, f"{inputs.operation.name} has policy OnEvent")
        return RunStatus(OperationPhase.FAILED, ONCE, failed=failed)
    if policy is Policy.CRON and schedule is not None:
        return _next_of_cron(inputs, before, schedule, now)
    if phase in ENDED and not _was_refused(before):
        return RunStatus(phase, ONCE, job=_unended(inputs, ONCE))
    return _advanced(inputs, before, phase, ONCE, now)


def _was_refused(before: OperationStatus) -> bool:
    """True for one that never began, since it made no sense; by now it does."""
    failed = condition_of(before.conditions, OperationConditionType.FAILED)
    return before.phase is OperationPhase.FAILED and failed is not None and failed.reason == Reason.REFUSED


def _next_of_cron(
    inputs: OperationInputs, before: OperationStatus, schedule: str, now: datetime
) -> RunStatus:
    """A run that goes on goes on; then the last moment that was due and not served begins another one."""
    phase = before.phase or OperationPhase.NONE
    scheduled = before.last_schedule_time
    if scheduled is not None and phase not in ENDED:
        return dataclasses.replace(
            _advanced(inputs, before, phase, _run_of(scheduled), now), scheduled=scheduled
        )
    plan = parse_schedule(schedule)
    after = scheduled or inputs.operation.metadata.creation_timestamp or now
    due = last_due(plan, after, now)
    if due is not None:
        fresh = dataclasses.replace(inputs, job=None)
        return dataclasses.replace(
            _advanced(fresh, before, OperationPhase.NONE, _run_of(due), now), scheduled=due
        )
    if scheduled is None and next_due(plan, now) is None:
        never = wait(Reason.SCHEDULE_NEVER_DUE, f"the schedule of {inputs.operation.name} is never due")
        return RunStatus(OperationPhase.FAILED, "", failed=never)
    waits = OperationPhase.PENDING if scheduled is None else phase
    run = _run_of(scheduled) if scheduled else ""
    return RunStatus(waits, run, scheduled=scheduled, job=_unended(inputs, run))


def _unended(inputs: OperationInputs, run: str) -> JobFacts | None:
    """What is still there of a run that was given up."""
    job = inputs.job
    is_there = job is not None and job.run == run and job.state in {JobState.STARTING, JobState.RUNNING}
    return job if is_there else None


def _run_of(moment: datetime) -> str:
    return str(int(moment.timestamp()))


def _advanced(
    inputs: OperationInputs, before: OperationStatus, phase: OperationPhase, run: str, now: datetime
) -> RunStatus:
    """One run, a step further."""
    job = inputs.job if inputs.job is not None and inputs.job.run == run else None
    if job is not None:
        return _of_job(inputs, run, job, now)
    waiting = _waiting(inputs)
    made = waiting or job_of(inputs.operation, inputs.context)
    if isinstance(made, Wait):
        if _is_overdue(before, made, now):
            return RunStatus(OperationPhase.FAILED, run, failed=made)
        return RunStatus(OperationPhase.PENDING, run, waiting=made)
    hindrance = f" and cannot begin yet, {inputs.hindrance}" if inputs.hindrance else ""
    starting = wait(Reason.OPERATION_STARTING, f"{inputs.operation.name} was ordered{hindrance}")
    if _is_overdue(before, starting, now):
        return RunStatus(OperationPhase.FAILED, run, failed=starting)
    # Work that is gone is ordered again under its own name: it goes on.
    again = phase if phase is OperationPhase.EXECUTING else OperationPhase.PENDING
    return RunStatus(again, run, start=made, waiting=starting)


def _given_up(job: JobFacts, now: datetime) -> Wait | None:
    """What has kept it from going on for longer than it may."""
    if job.trouble is None or job.trouble.since is None:
        return None
    limit = deadline_s(job.trouble.waiting.reason)
    is_over = limit is not None and (now - job.trouble.since).total_seconds() >= limit
    return job.trouble.waiting if is_over else None


def _of_job(inputs: OperationInputs, run: str, job: JobFacts, now: datetime) -> RunStatus:
    if job.state in {JobState.STARTING, JobState.RUNNING}:
        if given_up := _given_up(job, now):
            return RunStatus(OperationPhase.FAILED, run, failed=given_up, job=job)
        return RunStatus(OperationPhase.EXECUTING, run, job=job)
    if job.state is JobState.FAILED:
        what = f"{inputs.operation.name}: {job.message or 'it failed and says no more'}"
        return RunStatus(OperationPhase.FAILED, run, failed=wait(Reason.OPERATION_FAILED, what), job=job)
    incomplete = _incomplete(inputs, job)
    if incomplete:
        return RunStatus(OperationPhase.FAILED, run, failed=incomplete, job=job)
    return RunStatus(OperationPhase.COMPLETE, run, job=job)


def _incomplete(inputs: OperationInputs, job: JobFacts) -> Wait | None:
    """What is lacking of work that says it is done."""
    if job.is_whole:
        return None
    reason = (
        Reason.LOAD_INCOMPLETE if kind_of(inputs.operation).name == "DataLoad" else Reason.COPY_INCOMPLETE
    )
    parts = [f"{format_bytes(job.done_bytes)} of {format_bytes(job.total_bytes)} are there"]
    if job.did_not_fit_bytes:
        parts.append(f"{format_bytes(job.did_not_fit_bytes)} did not fit")
    if job.faults:
        parts.append(f"{job.faults} files failed")
    return wait(
        reason, f"{inputs.operation.name}: {', '.join(parts)}{f'; {job.message}' if job.message else ''}"
    )


def _waiting(inputs: OperationInputs) -> Wait | None:
    """What must be before the work begins."""
    return _waiting_for_predecessor(inputs) or _waiting_for_dataset(inputs)


def _waiting_for_predecessor(inputs: OperationInputs) -> Wait | None:
    after = inputs.operation.spec.run_after
    if after is None:
        return None
    name = f"{after.kind} {after.namespace or inputs.operation.namespace or 'default'}/{after.name}"
    if inputs.predecessor_fault:
        return wait(Reason.PREDECESSOR_REFUSED, f"{name}: {inputs.predecessor_fault}")
    if inputs.predecessor is None:
        return wait(Reason.PREDECESSOR_MISSING, f"{name} does not exist")
    phase = (inputs.predecessor.status or OperationStatus()).phase
    if phase is OperationPhase.FAILED:
        return wait(Reason.PREDECESSOR_FAILED, f"{name} failed")
    if phase is not OperationPhase.COMPLETE:
        return wait(Reason.PREDECESSOR_RUNNING, f"{name} has not ended")
    return None


def _waiting_for_dataset(inputs: OperationInputs) -> Wait | None:
    for key in dataset_keys(inputs.operation):
        if _is_foreign(inputs.operation, key):
            # Refused for that alone: whether it exists is not for other namespaces to learn.
            continue
        dataset = inputs.context.datasets.get(key)
        if dataset is None:
            return wait(Reason.DATASET_NOT_READY, f"dataset {key} does not exist")
        if is_closing(dataset):
            what = "" if is_leaving(dataset) else "the runtime of "
            return wait(Reason.DATASET_NOT_READY, f"{what}dataset {key} is being deleted")
        ready = condition_of((dataset.status or DatasetStatus()).conditions, "Ready")
        if ready is None or ready.status != "True":
            why = f" ({ready.reason})" if ready and ready.reason else ""
            return wait(Reason.DATASET_NOT_READY, f"dataset {key} is not ready{why}")
    return None


def _is_foreign(operation: Operation, key: str) -> bool:
    """True for a dataset of another namespace."""
    return key.partition("/")[0] != (operation.namespace or "default")


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


def _requeue_after_s(operation: Operation, status: OperationStatus, now: datetime) -> float:
    if status.phase is OperationPhase.EXECUTING:
        return _RUNNING_POLL_S
    policy, schedule = _policy(operation)
    requeues = [_LONGEST_POLL_S if status.phase in ENDED else _WAITING_POLL_S]
    if policy is Policy.CRON and schedule:
        waits = status.phase in ENDED or status.last_schedule_time is None
        due = next_due(parse_schedule(schedule), now) if waits else None
        requeues = [min(max((due - now).total_seconds(), 1.0), _LONGEST_POLL_S)] if due else requeues
    left = _left_s(operation, status, now)
    return min([*requeues, max(left, 1.0)] if left is not None else requeues)

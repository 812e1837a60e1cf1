"""The status of an operation: phase, duration, conditions, how far it is; and the events that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from headrace.api.conditions import OperationConditionType
from headrace.api.databackup import LOCATION_NODE, LOCATION_PATH, DataBackup
from headrace.api.dataprocess import DataProcess
from headrace.api.formats import RUN_AGAIN, UNFINISHED, format_bytes, format_duration, format_percentage
from headrace.api.ignored import ignored_fields
from headrace.api.kinds import kind_of
from headrace.api.operations import OperationPhase, OperationStatus, WaitingFor
from headrace.plan.condition_times import Fact, condition_of, conditions
from headrace.plan.dataset_events import Event, EventType
from headrace.plan.dataset_status import ignored_fact
from headrace.plan.operation_inputs import ENDED, JobFacts, JobState, OperationInputs, RunStatus
from headrace.plan.reasons import Reason


def operation_status(inputs: OperationInputs, state: RunStatus, now: datetime) -> OperationStatus:
    """The whole status."""
    before = inputs.before
    fields: dict[str, Any] = {
        "phase": state.phase,
        "duration": _duration(before, state, now),
        "conditions": conditions(before.conditions, _facts(inputs, before, state), now),
        "infos": _infos(inputs, before, state),
        "last_schedule_time": state.scheduled,
        "last_successful_time": _last_success(before, state, now),
        "waiting_for": _waiting_for(inputs, state),
        "observed_generation": inputs.operation.metadata.generation,
    }
    return OperationStatus(**{name: value for name, value in fields.items() if value not in (None, {}, ())})


def _duration(before: OperationStatus, state: RunStatus, now: datetime) -> str:
    if state.phase not in ENDED:
        return RUN_AGAIN if before.last_successful_time else UNFINISHED
    if state.job is not None and (before.phase not in ENDED or before.duration is None):
        return format_duration((state.job.ended_at or now) - state.job.started_at)
    return before.duration if before.phase in ENDED and before.duration else format_duration(timedelta())


def _facts(inputs: OperationInputs, before: OperationStatus, state: RunStatus) -> Mapping[str, Fact]:
    said = {condition.type for condition in before.conditions}
    kind = kind_of(inputs.operation).name
    facts: dict[str, Fact] = {}
    if state.waiting is not None:
        facts[OperationConditionType.WAITING] = Fact("True", state.waiting.reason, state.waiting.message)
    elif OperationConditionType.WAITING in said:
        facts[OperationConditionType.WAITING] = Fact("False", "NothingToWaitFor", "It waits for nothing.")
    if state.failed is not None:
        facts[OperationConditionType.FAILED] = Fact("True", state.failed.reason, state.failed.message)
    elif OperationConditionType.FAILED in said and state.phase is not OperationPhase.FAILED:
        facts[OperationConditionType.FAILED] = Fact("False", "RunAgain", "It runs again.")
    if state.phase is OperationPhase.COMPLETE and (before.phase is not OperationPhase.COMPLETE):
        facts[OperationConditionType.COMPLETE] = Fact("True", f"{kind}Complete", _complete_text(state.job))
    elif OperationConditionType.COMPLETE in said and state.phase is not OperationPhase.COMPLETE:
        facts[OperationConditionType.COMPLETE] = Fact("False", "RunAgain", "It runs again.")
    trouble = state.job.trouble if state.job and state.phase is OperationPhase.EXECUTING else None
    if trouble is not None:
        facts[OperationConditionType.DEGRADED] = Fact("True", trouble.waiting.reason, trouble.waiting.message)
    elif OperationConditionType.DEGRADED in said:
        facts[OperationConditionType.DEGRADED] = Fact("False", "NothingIsWrong", "Nothing is in its way.")
    ignored = ignored_fact((*ignored_fields(inputs.operation), *inputs.ignored))
    if ignored.status == "True" or OperationConditionType.FIELDS_IGNORED in said:
        facts[OperationConditionType.FIELDS_IGNORED] = ignored
    return facts


def _complete_text(job: JobFacts | None) -> str:
    if job is None or not job.total_files:
        return "It is done."
    return f"{job.done_files} files, {format_bytes(job.done_bytes)}, are there and verified."


def _infos(inputs: OperationInputs, before: OperationStatus, state: RunStatus) -> dict[str, str]:
    """How far it is; for a backup, where it lies."""
    if state.job is None:
        return dict(before.infos)
    job = state.job
    goes_on = job.state is JobState.RUNNING and before.phase is OperationPhase.EXECUTING
    # Who does not answer for a moment is as far as it was.
    infos = dict(before.infos) if goes_on and not job.total_files else {}
    if job.total_bytes or job.total_files:
        infos |= {
            "Progress": format_percentage(job.done_bytes, job.total_bytes) if job.total_bytes else "100.0%",
            "Bytes": f"{format_bytes(job.done_bytes)}/{format_bytes(job.total_bytes)}",
            "Files": f"{job.done_files}/{job.total_files}",
        }
    if job.bytes_per_second is not None:
        infos["Rate"] = f"{format_bytes(int(job.bytes_per_second))}/s"
    if job.left_s is not None:
        infos["Left"] = format_duration(timedelta(seconds=round(job.left_s)))
    if job.exit_code is not None:
        infos["ExitCode"] = str(job.exit_code)
    if isinstance(inputs.operation, DataProcess) and job.node:
        infos["Node"] = job.node
    if isinstance(inputs.operation, DataBackup):
        infos |= {LOCATION_PATH: inputs.operation.spec.backup_path or "", LOCATION_NODE: job.node or "NA"}
    return infos


def _last_success(before: OperationStatus, state: RunStatus, now: datetime) -> datetime | None:
    done = state.phase is OperationPhase.COMPLETE and before.phase is not OperationPhase.COMPLETE
    if done and state.scheduled is not None:
        return state.job.ended_at or now if state.job else now
    return before.last_successful_time


def _waiting_for(inputs: OperationInputs, state: RunStatus) -> WaitingFor | None:
    if inputs.operation.spec.run_after is None:
        return None
    reasons = {Reason.PREDECESSOR_MISSING, Reason.PREDECESSOR_REFUSED, Reason.PREDECESSOR_RUNNING}
    return WaitingFor(operation_complete=state.waiting is not None and state.waiting.reason in reasons)


def operation_events(kind: str, before: OperationStatus, after: OperationStatus) -> Iterator[Event]:
    """One when it begins, when it ends, and for each thing that it waits for and a person should know."""
    if after.phase is OperationPhase.EXECUTING and before.phase is not OperationPhase.EXECUTING:
        yield Event(kind, EventType.NORMAL, f"{kind}Started", "It has begun.")
    for condition in after.conditions:
        old = condition_of(before.conditions, condition.type)
        if condition.status != "True" or (
            old is not None and (old.status, old.reason) == ("True", condition.reason)
        ):
            continue
        if condition.reason in {Reason.OPERATION_STARTING, Reason.PREDECESSOR_RUNNING}:
            continue
        good = condition.type == OperationConditionType.COMPLETE
        yield Event(
            kind,
            EventType.NORMAL if good else EventType.WARNING,
            condition.reason or "",
            condition.message or "",
        )

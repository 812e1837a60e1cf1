"""The next step for a job: pure, from what is written down and seen to what is written down next.

The steps follow from the record alone and may be taken again, so whoever dies between writing and doing loses nothing.
Nothing of an attempt begins before everything of the one before has ended: there are never two launchers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.jobs.spec import CleanPolicy
from headrace.local.jobs.instance_states import ended_instances, terminated, with_observed_states
from headrace.local.jobs.job_records import (
    Happening,
    Instance,
    JobRecord,
    Stage,
    Verdict,
)
from headrace.local.jobs.observed_state import (
    End,
    Forget,
    Hold,
    ObservedState,
    ProcessState,
    Release,
    Start,
    Step,
)
from headrace.local.jobs.replicas import groups_of, replicas_of
from headrace.local.jobs.verdicts import explained, verdict_of

MOST_STARTS = 3
"""How often a process that ends before it has begun is started again."""

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_SOON_S = 0.2
_WAITING_S = 1.0
_RUNNING_S = 2.0
_KEPT_S = 5.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The record as it is to be written down, what to do after that, and when to reconcile again (`None`: not at
    all).
    """

    record: JobRecord
    steps: tuple[Step, ...] = ()
    requeue_after_s: float | None = None


def next_step(record: JobRecord, observed: ObservedState, now: datetime) -> Decision:
    """One step of a job."""
    current = with_observed_states(record, observed, now)
    if current.is_leaving:
        return _leave(current, observed)
    hopeless = _lateness(current, now) or _fault(current, observed)
    if hopeless:
        return _close(current, Verdict(succeeded=False, reason=hopeless, is_final=True), now)
    return _STAGES[current.stage](current, observed, now)


def _wait(record: JobRecord, observed: ObservedState, now: datetime) -> Decision:
    if observed.cold:
        # Without a node it holds nothing, also where it had one that was lost.
        lets_go = () if record.instances else (Hold(),)
        return Decision(record.changed(reason=observed.cold), lets_go, requeue_after_s=_WAITING_S)
    if observed.placement is None or observed.placement.problem:
        why = observed.placement.problem if observed.placement else "the nodes are being looked at"
        return Decision(record.changed(reason=why), requeue_after_s=_WAITING_S)
    attempt = record.attempt + 1
    replicas = replicas_of(record.spec, record.uid, attempt)
    instances = tuple(
        Instance(
            name=replica.name,
            role=replica.role,
            index=replica.index,
            node=observed.placement.nodes[replica.name],
            address=observed.placement.addresses.get(observed.placement.nodes[replica.name], ""),
            port=observed.placement.ports.get(replica.name, 0),
            gpus=replica.gpus,
            is_chief=replica.is_chief,
            created=now,
        )
        for replica in replicas
    )
    placed = record.changed(
        stage=Stage.PREPARING,
        attempt=attempt,
        instances=instances,
        verdict=None,
        paused_until=None,
        reason="",
    )
    where = ", ".join(placed.nodes)
    return Decision(_with_event(placed, now, "Normal", "Placed", f"runs on {where}"), (Hold(),), _SOON_S)


def _prepare(record: JobRecord, observed: ObservedState, now: datetime) -> Decision:
    if any(node not in observed.ready_nodes for node in record.nodes):
        # Nothing has begun: other nodes do as well.
        again = record.changed(stage=Stage.WAITING, instances=(), attempt=record.attempt - 1)
        return Decision(
            _with_event(again, now, "Warning", "NodeLost", "a node is gone; others are taken"), (), 0.0
        )
    if observed.unmounted:
        return Decision(record.changed(reason=observed.unmounted), (Hold(),), _SOON_S)
    return Decision(record.changed(stage=Stage.STARTING, reason=""), (Hold(),), 0.0)


def _start(record: JobRecord, observed: ObservedState, now: datetime) -> Decision:
    verdict = verdict_of(record, observed)
    if verdict is not None:
        return _close(record, verdict, now)
    for group in groups_of(record.spec):
        members = [each for each in record.instances if each.role in group]
        absent = [each for each in members if observed.of(each.name).state is ProcessState.ABSENT]
        if absent:
            return _begin(record, absent, now)
        if any(observed.of(each.name).state is ProcessState.STARTING for each in members):
            return Decision(record, requeue_after_s=_SOON_S)
    return _all_run(record, now)


def _begin(record: JobRecord, absent: list[Instance], now: datetime) -> Decision:
    worn = next((each for each in absent if each.starts >= MOST_STARTS), None)
    if worn is not None:
        reason = f"{worn.name} on {worn.node} cannot be started"
        return _close(record, Verdict(succeeded=False, reason=reason), now)
    names = {each.name for each in absent}
    started = tuple(
        each.model_copy(update={"starts": each.starts + 1}) if each.name in names else each
        for each in record.instances
    )
    return Decision(record.changed(instances=started), tuple(Start(each.name) for each in absent), _SOON_S)


def _all_run(record: JobRecord, now: datetime) -> Decision:
    running = record.changed(stage=Stage.RUNNING, started=record.started or now, reason="")
    return Decision(_with_event(running, now, "Normal", "Running", "all its processes run"), (), 0.0)


def _run(record: JobRecord, observed: ObservedState, now: datetime) -> Decision:
    verdict = verdict_of(record, observed)
    if verdict is not None:
        return _close(record, verdict, now)
    # A program of MPI may begin a step later than it is written: absent means that it never was.
    if any(observed.of(each.name).state is ProcessState.ABSENT for each in record.instances):
        return Decision(record.changed(stage=Stage.STARTING), (), 0.0)
    return Decision(record, requeue_after_s=_RUNNING_S)


def _close(record: JobRecord, verdict: Verdict, now: datetime) -> Decision:
    closing = record.changed(stage=Stage.CLOSING, verdict=verdict, reason=verdict.reason)
    if verdict.succeeded:
        return Decision(closing, (), 0.0)
    return Decision(_with_event(closing, now, "Warning", "Failed", verdict.reason), (), 0.0)


def _end(record: JobRecord, observed: ObservedState, now: datetime) -> Decision:
    verdict = record.verdict or Verdict(succeeded=False, reason="it is not known how it ended")
    better = explained(verdict, record, observed)
    if better != verdict:
        return _close(record, better, now)
    goes_on = _is_tried_again(record, verdict)
    left = _to_end(record, observed, keeps=_keeps(record, goes_on=goes_on))
    if left:
        return Decision(record, (End(left),), _SOON_S)
    if goes_on:
        return _pause(record, now)
    ended = record.changed(instances=ended_instances(record, observed))
    if any(observed.of(each.name).runs for each in record.instances):
        return _finish(ended, verdict, now)
    return Decision(ended.changed(stage=Stage.RELEASING), (Release(),), 0.0)


def _release(record: JobRecord, observed: ObservedState, now: datetime) -> Decision:
    """Who sees the job ended may delete its data at once."""
    if not observed.is_released:
        return Decision(record, (Release(),), _SOON_S)
    return _finish(record, record.verdict or Verdict(succeeded=False), now)


def _finish(record: JobRecord, verdict: Verdict, now: datetime) -> Decision:
    ended = record.changed(stage=Stage.ENDED, ended=record.ended or now)
    said = "Completed" if verdict.succeeded else "GaveUp"
    told = "has succeeded" if verdict.succeeded else f"has failed: {verdict.reason}"
    kind = "Normal" if verdict.succeeded else "Warning"
    return Decision(_with_event(ended, now, kind, said, told), (), 0.0)


def _pause(record: JobRecord, now: datetime) -> Decision:
    pause_s = min(_FIRST_PAUSE_S * 2 ** (record.attempt - 1), _LONGEST_PAUSE_S)
    told = f"it is tried again in {pause_s:g} s, the {record.attempt} of {record.spec.retries} times"
    paused = record.changed(
        stage=Stage.PAUSED,
        paused_until=now + timedelta(seconds=pause_s),
        instances=tuple(terminated(each) for each in record.instances),
    )
    return Decision(_with_event(paused, now, "Normal", "Retrying", told), (), pause_s)


def _rest(record: JobRecord, observed: ObservedState, now: datetime) -> Decision:  # noqa: ARG001
    left_s = (record.paused_until - now).total_seconds() if record.paused_until else 0.0
    if left_s > 0:
        return Decision(record, requeue_after_s=left_s)
    return Decision(record.changed(stage=Stage.WAITING), (), 0.0)


def _stay(record: JobRecord, observed: ObservedState, now: datetime) -> Decision:
    """An ended job: what its policy left running, and how long it is kept."""
    runs = any(observed.of(each.name).runs for each in record.instances)
    steps: tuple[Step, ...] = () if runs else (Release(),)
    ttl_s = record.spec.ttl_after_finished_s
    if ttl_s is None or record.ended is None:
        return Decision(record, steps, _KEPT_S if runs else None)
    left_s = ttl_s - (now - record.ended).total_seconds()
    if left_s <= 0:
        return Decision(record.changed(is_leaving=True), steps, 0.0)
    return Decision(record, steps, min(left_s, _KEPT_S) if runs else left_s)


def _leave(record: JobRecord, observed: ObservedState) -> Decision:
    left = _to_end(record, observed, keeps=False)
    if left:
        return Decision(record, (End(left),), _SOON_S)
    return Decision(record, (Release(), Forget()))


_STAGES: Mapping[Stage, Callable[[JobRecord, ObservedState, datetime], Decision]] = {
    Stage.WAITING: _wait,
    Stage.PREPARING: _prepare,
    Stage.STARTING: _start,
    Stage.RUNNING: _run,
    Stage.CLOSING: _end,
    Stage.RELEASING: _release,
    Stage.PAUSED: _rest,
    Stage.ENDED: _stay,
}


def _lateness(record: JobRecord, now: datetime) -> str | None:
    """Why the job is out of time, if it is."""
    spec = record.spec
    if record.stage in (Stage.CLOSING, Stage.RELEASING, Stage.ENDED):
        return None
    if record.started is None:
        waited_s = (now - record.created).total_seconds()
        if spec.starting_timeout_s and waited_s >= spec.starting_timeout_s:
            why = f": {record.reason}" if record.reason else ""
            return f"it did not run within {spec.starting_timeout_s} s{why}"
        return None
    ran_s = (now - record.started).total_seconds()
    if spec.running_timeout_s and ran_s >= spec.running_timeout_s:
        return f"it ran for longer than {spec.running_timeout_s} s"
    return None


def _fault(record: JobRecord, observed: ObservedState) -> str:
    """What cannot be done for it."""
    return observed.fault if record.stage in (Stage.PREPARING, Stage.STARTING) else ""


def _is_tried_again(record: JobRecord, verdict: Verdict) -> bool:
    return not verdict.succeeded and not verdict.is_final and record.attempt <= record.spec.retries


def _keeps(record: JobRecord, *, goes_on: bool) -> bool:
    return not goes_on and record.spec.clean_policy is CleanPolicy.NONE


def _to_end(record: JobRecord, observed: ObservedState, *, keeps: bool) -> tuple[str, ...]:
    """Whose processes are to be ended. With `keeps` those that run in order stay."""
    return tuple(
        each.name
        for each in record.instances
        if observed.of(each.name).runs and not (keeps and observed.of(each.name).state is ProcessState.UP)
    )


def _with_event(record: JobRecord, now: datetime, kind: str, reason: str, message: str) -> JobRecord:
    return record.told(Happening(at=now, type=kind, reason=reason, message=message))

"""What becomes of the instances of a record when they are looked at: their states, codes and reasons. Pure."""

from __future__ import annotations

from datetime import datetime

from headrace.local.training.records import Instance, InstanceState, JobRecord, Stage
from headrace.local.training.sights import Seen, Sight

_ENDING = (Stage.CLOSING, Stage.RELEASING, Stage.ENDED)


def observed(record: JobRecord, seen: Seen, now: datetime) -> JobRecord:
    """The record with its instances as they are seen."""
    instances = tuple(_seen_as(each, record, seen, now) for each in record.instances)
    return record if instances == record.instances else record.changed(instances=instances)


def _seen_as(instance: Instance, record: JobRecord, seen: Seen, now: datetime) -> Instance:
    sight = seen.of(instance.name)
    if instance.state.has_ended or sight.sight in (Sight.ABSENT, Sight.STARTING):
        return instance
    if sight.sight is Sight.UP:
        if instance.state is InstanceState.RUNNING:
            return instance
        return instance.model_copy(update={"state": InstanceState.RUNNING, "started": now})
    started = instance.started or now
    if (record.stage in _ENDING or record.is_leaving) and not sight.is_out_of_memory:
        state = _state_in_order(record)
        return instance.model_copy(update={"state": state, "started": started})
    is_gone = instance.node not in seen.ready_nodes
    reason = "is gone with its node" if is_gone else sight.message or "was killed"
    good = sight.sight is Sight.ENDED and sight.exit_code == 0
    return instance.model_copy(
        update={
            "state": InstanceState.SUCCEEDED if good else InstanceState.FAILED,
            "started": started,
            "exit_code": sight.exit_code,
            "reason": "" if good else reason,
        }
    )


def _state_in_order(record: JobRecord) -> InstanceState:
    """How an instance ends that was ended with its job."""
    has_succeeded = record.verdict is not None and record.verdict.succeeded
    return InstanceState.SUCCEEDED if has_succeeded else InstanceState.TERMINATED


def ended_instances(record: JobRecord, seen: Seen) -> tuple[Instance, ...]:
    """All instances as they stay: those that never began are terminated, those that policy leaves run."""
    return tuple(each if seen.of(each.name).runs else terminated(each) for each in record.instances)


def terminated(instance: Instance) -> Instance:
    """An instance that was ended with its job, unless it had ended before."""
    if instance.state.has_ended:
        return instance
    return instance.model_copy(update={"state": InstanceState.TERMINATED})

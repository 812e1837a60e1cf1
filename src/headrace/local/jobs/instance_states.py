"""The next states of the instances of a record when they are looked at, with codes and reasons. Pure."""

from __future__ import annotations

from datetime import datetime

from headrace.local.jobs.job_records import Instance, InstanceState, JobRecord, Stage
from headrace.local.jobs.observed_state import ObservedState, ProcessState

_ENDING = (Stage.CLOSING, Stage.RELEASING, Stage.ENDED)


def with_observed_states(record: JobRecord, observed: ObservedState, now: datetime) -> JobRecord:
    """The record with its instances as they are seen."""
    instances = tuple(_observed_as(each, record, observed, now) for each in record.instances)
    return record if instances == record.instances else record.changed(instances=instances)


def _observed_as(instance: Instance, record: JobRecord, observed: ObservedState, now: datetime) -> Instance:
    observation = observed.of(instance.name)
    if instance.state.has_ended or observation.state in (ProcessState.ABSENT, ProcessState.STARTING):
        return instance
    if observation.state is ProcessState.UP:
        if instance.state is InstanceState.RUNNING:
            return instance
        return instance.model_copy(update={"state": InstanceState.RUNNING, "started": now})
    started = instance.started or now
    if (record.stage in _ENDING or record.is_leaving) and not observation.is_out_of_memory:
        state = _state_in_order(record)
        return instance.model_copy(update={"state": state, "started": started})
    is_gone = instance.node not in observed.ready_nodes
    reason = "is gone with its node" if is_gone else observation.message or "was killed"
    good = observation.state is ProcessState.ENDED and observation.exit_code == 0
    return instance.model_copy(
        update={
            "state": InstanceState.SUCCEEDED if good else InstanceState.FAILED,
            "started": started,
            "exit_code": observation.exit_code,
            "reason": "" if good else reason,
        }
    )


def _state_in_order(record: JobRecord) -> InstanceState:
    """How an instance ends that was ended with its job."""
    has_succeeded = record.verdict is not None and record.verdict.succeeded
    return InstanceState.SUCCEEDED if has_succeeded else InstanceState.TERMINATED


def ended_instances(record: JobRecord, observed: ObservedState) -> tuple[Instance, ...]:
    """All instances as they stay: those that never began are terminated, those that policy leaves run."""
    return tuple(each if observed.of(each.name).runs else terminated(each) for each in record.instances)


def terminated(instance: Instance) -> Instance:
    """An instance that was ended with its job, unless it had ended before."""
    if instance.state.has_ended:
        return instance
    return instance.model_copy(update={"state": InstanceState.TERMINATED})

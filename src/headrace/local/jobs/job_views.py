"""A job as it is shown: from its record to the view that all backends have in common. Pure."""

from __future__ import annotations

from headrace.jobs.spec import JobSpec
from headrace.jobs.views import InstanceView, JobEvent, JobPhase, JobView
from headrace.local.jobs.job_records import Happening, Instance, JobRecord, Stage

_RUNS = (Stage.RUNNING, Stage.CLOSING, Stage.RELEASING)


def view_of(record: JobRecord, *, events: bool = False) -> JobView:
    """The job as it is now."""
    spec, chief = record.spec, record.chief
    return JobView(
        name=spec.name,
        namespace=spec.namespace,
        kind=spec.kind,
        phase=_phase(record),
        uid=record.uid,
        created=record.created,
        started=record.started,
        ended=record.ended,
        reason=record.reason,
        priority=spec.priority_class,
        instances=tuple(_instance(each) for each in record.instances),
        data_cost=record.metering.cost if spec.data else None,
        exit_code=_exit_code(record, chief),
        spec=spec,
        events=tuple(_event(each, spec) for each in record.happenings) if events else (),
    )


def _phase(record: JobRecord) -> JobPhase:
    if record.stage is Stage.ENDED:
        succeeded = record.verdict is not None and record.verdict.succeeded
        return JobPhase.SUCCEEDED if succeeded else JobPhase.FAILED
    if is_held(record):
        return JobPhase.SUSPENDED
    return JobPhase.RUNNING if record.stage in _RUNS else JobPhase.PENDING


def is_held(record: JobRecord) -> bool:
    """True if it waits, as its user asked, for its data or for a release."""
    waits = record.stage is Stage.WAITING and record.attempt == 0
    return waits and (record.spec.suspend or record.spec.wait_warm_percent > 0)


def _exit_code(record: JobRecord, chief: Instance | None) -> int | None:
    if record.stage is not Stage.ENDED:
        return None
    if chief is not None and chief.exit_code is not None:
        return chief.exit_code
    return record.verdict.exit_code if record.verdict is not None else None


def _instance(instance: Instance) -> InstanceView:
    return InstanceView(
        name=instance.name,
        role=instance.role,
        index=instance.index,
        status=instance.state.value,
        node=instance.node,
        node_address=instance.address,
        address=instance.address,
        created=instance.created,
        started=instance.started,
        gpus=instance.gpus,
        is_chief=instance.is_chief,
        exit_code=instance.exit_code,
        reason=instance.reason,
    )


def _event(happening: Happening, spec: JobSpec) -> JobEvent:
    source = f"pod/{happening.instance}" if happening.instance else f"{spec.kind.value}/{spec.name}"
    return JobEvent(source, happening.type, happening.at, happening.reason, happening.message)

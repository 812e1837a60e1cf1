"""The verdict on an attempt, whether it has ended and how, from the states of its instances: the rules of each kind of
job. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.jobs.spec import JobKind, JobSpec, RoleName
from headrace.local.jobs.job_records import Instance, InstanceState, JobRecord, Verdict
from headrace.local.jobs.observed_state import ObservedState

_ALL_WORKERS = "AllWorkers"
_BYSTANDERS = (RoleName.EVALUATOR,)


def verdict_of(record: JobRecord, observed: ObservedState) -> Verdict | None:
    """How the attempt has ended; `None` while it goes on. Success counts before the failure of another instance."""
    chief = record.chief
    if _has_succeeded(record.spec, record.instances):
        return Verdict(succeeded=True, exit_code=chief.exit_code if chief else 0)
    failed = next(_failures(record, observed), None)
    if failed is not None:
        return Verdict(succeeded=False, reason=_why(failed), exit_code=_code(failed, chief))
    lost = next((each for each in record.instances if each.node not in observed.ready_nodes), None)
    if lost is not None:
        return Verdict(succeeded=False, reason=f"{lost.name}: {lost.node} is gone or not ready")
    return None


def _has_succeeded(spec: JobSpec, instances: Iterable[Instance]) -> bool:
    known = list(instances)
    if spec.kind is JobKind.TF and spec.success_policy == _ALL_WORKERS:
        known = [each for each in known if each.role in (RoleName.CHIEF, RoleName.WORKER)]
    else:
        known = [each for each in known if each.is_chief]
    return bool(known) and all(each.state is InstanceState.SUCCEEDED for each in known)


def explained(verdict: Verdict, record: JobRecord, observed: ObservedState) -> Verdict:
    """The verdict, once all instances have ended: the one that had no memory left explains why others failed."""
    starved = next(
        (
            each
            for each in record.instances
            if each.state is InstanceState.FAILED and _is_starved(each, observed)
        ),
        None,
    )
    return (
        verdict
        if verdict.succeeded or starved is None
        else verdict.model_copy(update={"reason": _why(starved)})
    )


def _failures(record: JobRecord, observed: ObservedState) -> Iterator[Instance]:
    """Instances whose end fails the attempt: one that had no memory left first, then the chief, who may know why."""
    instances = sorted(
        record.instances, key=lambda each: (not _is_starved(each, observed), not each.is_chief)
    )
    return (each for each in instances if _is_failure(record.spec, each))


def _is_failure(spec: JobSpec, instance: Instance) -> bool:
    if instance.role in _BYSTANDERS:
        return False
    if instance.state is InstanceState.FAILED:
        return True
    # A worker of MPI only serves ranks: it has no end of its own.
    serves = spec.kind is JobKind.MPI and instance.role is RoleName.WORKER
    return serves and instance.state.has_ended


def _is_starved(instance: Instance, observed: ObservedState) -> bool:
    return observed.of(instance.name).is_out_of_memory


def _why(instance: Instance) -> str:
    return f"{instance.name} on {instance.node} {instance.reason or 'has ended'}"


def _code(failed: Instance, chief: Instance | None) -> int | None:
    """The chief's code if it has ended, else that of the instance that failed."""
    return chief.exit_code if chief and chief.exit_code is not None else failed.exit_code

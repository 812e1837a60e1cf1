"""A job as it is shown, from its object, its pods and what is remembered of those that are gone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from headrace.jobs.spec import JobKind, JobSpec, RoleName
from headrace.jobs.views import InstanceView, JobEvent, JobPhase, JobView
from headrace.kubeflow.meters import metering_of
from headrace.kubeflow.names import KIND_OF, WORDS, Content, job_name_of, kind_word_of, time_of
from headrace.kubeflow.notes import Note, note_of
from headrace.kubeflow.phases import JobStatus, status_of
from headrace.kubeflow.pod_states import in_order, instance_of

_CHIEFS = (RoleName.LAUNCHER, RoleName.MASTER, RoleName.CHIEF)


@dataclass(frozen=True, slots=True)
class Known:
    """The facts about a job beside itself and its pods."""

    events: tuple[JobEvent, ...] = ()
    spec: JobSpec | None = None
    tensorboard: str = ""
    cold: str = ""
    """What its data still lacks, for one that waits for it."""


def view_of(job: Content, pods: Iterable[Content], known: Known | None = None) -> JobView:
    """The view. `pods` are those of the job that are there."""
    more = known or Known()
    kind = KIND_OF[job["kind"]]
    note = note_of(job)
    instances = instances_of(kind, pods, note)
    failed_ones = (*instances, *(each.view for each in note.instances))
    status = status_of(kind, job, failed_ones if not _was_suspended(job) else instances)
    chief = next((each for each in instances if each.is_chief), None)
    metadata = job["metadata"]
    return JobView(
        name=metadata["name"],
        namespace=metadata.get("namespace") or "default",
        kind=kind,
        phase=status.phase,
        uid=metadata.get("uid") or "",
        created=time_of(metadata["creationTimestamp"]) or datetime.min,
        started=note.started or status.started or all_started(job, instances),
        ended=status.ended,
        reason=_reason(job, status, more),
        priority=priority_of(job),
        instances=instances,
        data_cost=metering_of(job).cost,
        exit_code=_exit_code(status, chief, instances),
        spec=more.spec,
        events=more.events,
        tensorboard=more.tensorboard,
    )


def pods_of(job: Content, pods: Iterable[Content]) -> list[Content]:
    """The pods that belong to the job. Those of an earlier one of its name may still be there."""
    metadata = job["metadata"]
    kind, born = KIND_OF[job["kind"]], metadata.get("creationTimestamp") or ""
    found = []
    for pod in pods:
        own = pod["metadata"]
        owners = [each for each in own.get("ownerReferences") or () if each.get("kind") == job["kind"]]
        if owners and all(each.get("uid") != metadata.get("uid") for each in owners):
            continue
        is_named = job_name_of(pod) == metadata["name"] and kind_word_of(pod) is kind
        if is_named and own.get("namespace") == metadata.get("namespace"):
            found += [pod] if (own.get("creationTimestamp") or born) >= born else []
    return found


def instances_of(kind: JobKind, pods: Iterable[Content], note: Note) -> tuple[InstanceView, ...]:
    """All instances: pods that are there, and what is remembered of others. One of a name is the last that had it."""
    there = list(pods)
    kept = [each.view for each in note.instances if all(_uid(pod) != each.uid for pod in there)]
    newest: dict[str, InstanceView] = {}
    for each in sorted((*kept, *map(instance_of, there)), key=lambda view: str(view.created or "")):
        newest[each.name] = each
    found = list(newest.values())
    chief = chief_of(kind, found)
    return in_order([replace(each, is_chief=each is chief) for each in found])


def chief_of(kind: JobKind, instances: Sequence[InstanceView]) -> InstanceView | None:
    """The instance whose end is the job's: of several launchers the newest that does not wait."""
    chiefs = [each for each in instances if each.role in _CHIEFS]
    if not chiefs and kind is not JobKind.MPI:
        chiefs = [each for each in instances if each.role is RoleName.WORKER and each.index == 0]
    return max(chiefs, key=lambda each: (each.status != "PENDING", str(each.created or "")), default=None)


def priority_of(job: Content) -> str:
    """The name of its priority class; empty without one."""
    spec = job.get("spec") or {}
    policy = (spec.get("runPolicy") or {}).get("schedulingPolicy") or {}
    if policy.get("priorityClass"):
        return str(policy["priorityClass"])
    named_by_pods = (pod.get("priorityClassName") for pod in pod_specs_of(job))
    return next((str(name) for name in named_by_pods if name), "")


def pod_specs_of(job: Content) -> list[Content]:
    """The specs that its pods are made from, role by role."""
    spec = job.get("spec") or {}
    roles = spec.get(WORDS[KIND_OF[job["kind"]]].replica_specs) or {}
    # The first version had one template for launcher and workers.
    templates = [each.get("template") for each in roles.values()] + [spec.get("template")]
    return [(template or {}).get("spec") or {} for template in templates if template]


def expected_pods(job: Content) -> int:
    """The number of its pods when all are there."""
    spec = job.get("spec") or {}
    roles = spec.get(WORDS[KIND_OF[job["kind"]]].replica_specs) or {}
    return sum(int(each.get("replicas", 1)) for each in roles.values()) or 1 + int(spec.get("replicas") or 0)


def all_started(job: Content, instances: Sequence[InstanceView]) -> datetime | None:
    """The time at which the last of its pods began; `None` while one has not."""
    if len(instances) < expected_pods(job) or any(each.started is None for each in instances):
        return None
    return max(each.started for each in instances if each.started)


def _reason(job: Content, status: JobStatus, known: Known) -> str:
    if job["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    if status.phase is JobPhase.SUSPENDED and known.cold:
        return known.cold
    if status.phase is JobPhase.PENDING and (warned := _last_warning(known.events)):
        return f"{status.reason}; {warned}" if status.reason else warned
    return status.reason


def _last_warning(events: Sequence[JobEvent]) -> str:
    warnings = [each for each in events if each.type == "Warning"]
    last = max(warnings, key=lambda each: each.at, default=None)
    return f"{last.reason}: {last.message}" if last else ""


def _exit_code(
    status: JobStatus, chief: InstanceView | None, instances: Iterable[InstanceView]
) -> int | None:
    """The chief's if it has ended by itself, else that of the instance that failed."""
    if not status.phase.has_ended:
        return None
    if status.phase is JobPhase.SUCCEEDED:
        return 0
    if chief is not None and chief.status == "FAILED" and chief.exit_code is not None:
        return chief.exit_code
    codes = (each.exit_code for each in instances if each.status == "FAILED")
    return next((code for code in codes if code), chief.exit_code if chief else None)


def _was_suspended(job: Content) -> bool:
    """Pods that were deleted for that have not failed."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Suspended" for each in conditions)


def _uid(pod: Content) -> str:
    return str(pod["metadata"].get("uid") or "")

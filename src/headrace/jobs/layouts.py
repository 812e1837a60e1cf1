"""The output of `get`, `list`, `top`, `data list`: by default word for word as Arena did up to 0.6, as in the seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from headrace.jobs.spec import JobKind
from headrace.jobs.tables import COST_TITLES, NOTHING, age, align, cost_cells, cost_note, duration_s, short
from headrace.jobs.views import ClaimView, InstanceView, JobEvent, JobPhase, JobView, NodeRoom

_INSTANCES = ("NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE")
_GPUS = ("INSTANCE", "NODE(IP)", "GPU(Requested)")
_EVENTS = ("SOURCE", "TYPE", "AGE", "MESSAGE")
_HOLDS_GPUS = (JobPhase.PENDING, JobPhase.RUNNING)


def get_text(
    job: JobView, now: datetime, *, wide: bool = False, gpus: bool = False, events: bool = False
) -> str:
    """`arena get`. `wide`: what reading cost; `gpus`: who has how many; `events`: what happened, if anything did."""
    parts = ["\n".join(_facts(job, now, wide=wide)), align([_INSTANCES, *_instance_rows(job, now)])]
    if job.tensorboard:
        parts.append(f"Your tensorboard will be available on:\n{job.tensorboard}")
    if gpus:
        parts.append(f"GPUs:\n{gpus_text(job)}")
    if events and job.events:
        parts.append(f"Events:\n{events_text(job.events, now)}")
    return "\n\n".join(parts)


def list_text(
    jobs: Sequence[JobView], now: datetime, *, wide: bool = False, with_namespace: bool = False
) -> str:
    """`arena list`, in the order that the jobs have."""
    more = ("TRAINING DURATION", *COST_TITLES) if wide else ()
    head = [*_named(with_namespace), "STATUS", "TRAINER", "AGE", "NODE", *more]
    rows = [
        [
            *_name(job, with_namespace),
            job.phase.value,
            trainer(job.kind),
            age(job.created, now),
            _chief_address(job),
            *((short(duration_s(job, now)), *cost_cells(job.data_cost)) if wide else ()),
        ]
        for job in jobs
    ]
    return align([head, *rows])


def top_job_text(jobs: Sequence[JobView], now: datetime, *, with_namespace: bool = False) -> str:
    """`arena top job`: GPUs that jobs asked for and have."""
    head = [*_named(with_namespace), "STATUS", "TRAINER", "AGE", "GPU(Requested)", "GPU(Allocated)", "NODE"]
    rows = [
        [
            *_name(job, with_namespace),
            job.phase.value,
            trainer(job.kind),
            age(job.created, now),
            str(job.requested_gpus),
            str(allocated_gpus(job)) if job.phase in _HOLDS_GPUS else NOTHING,
            _chief_address(job),
        ]
        for job in jobs
    ]
    asked, had = sum(job.requested_gpus for job in jobs), sum(allocated_gpus(job) for job in jobs)
    return f"{align([head, *rows])}\n\n\nTotal Allocated/Requested GPUs of Training Jobs: {had}/{asked}"


def top_instances_text(job: JobView, now: datetime) -> str:
    """`arena top job NAME`."""
    head = ("INSTANCE", "STATUS", "AGE", "GPU(Requested)", "NODE")
    rows = [
        (each.name, each.status, age(each.created, now), str(each.gpus), each.node_address or NOTHING)
        for each in job.instances
    ]
    return f"{align([head, *rows])}\n\n\n{_gpu_total(job)}"


def gpus_text(job: JobView) -> str:
    """The GPUs of each instance of a job. How busy they are is not known."""
    rows = [(each.name, each.node_address or NOTHING, str(each.gpus)) for each in job.instances]
    return f"{align([_GPUS, *rows])}\n\n{_gpu_total(job)}"


def top_node_text(nodes: Sequence[NodeRoom]) -> str:
    """`arena top node`: GPUs of nodes, and how many of them are taken."""
    head = ("NAME", "IPADDRESS", "ROLE", "STATUS", "GPU(Total)", "GPU(Allocated)")
    rows = [
        (
            node.name,
            node.address or NOTHING,
            node.role or "<none>",
            "Ready" if node.ready else "NotReady",
            str(node.gpus),
            str(node.allocated_gpus),
        )
        for node in nodes
    ]
    total, taken = sum(node.gpus for node in nodes), sum(node.allocated_gpus for node in nodes)
    percent = f"{taken * 100 / total:.1f}%" if total else "0.0%"
    text = align([head, *rows])
    return f"{text}\n{_rule(text)}\nAllocated/Total GPUs In Cluster:\n{taken}/{total} ({percent})"


def data_list_text(claims: Sequence[ClaimView], now: datetime, *, with_namespace: bool = False) -> str:
    """`arena data list`: what `--data` may name now. Of a dataset the part that is cached stands at the end."""
    head = [*_named(with_namespace), "ACCESSMODE", "DESCRIPTION", "OWNER", "AGE", "CACHED"]
    rows = [
        [
            *((claim.namespace, claim.name) if with_namespace else (claim.name,)),
            ",".join(claim.access_modes) or NOTHING,
            claim.description or ("dataset" if claim.is_dataset else ""),
            claim.owner,
            age(claim.created, now),
            claim.cached or NOTHING,
        ]
        for claim in claims
    ]
    return align([head, *rows])


def usable(claims: Iterable[ClaimView]) -> list[ClaimView]:
    """The claims that a job could use at once."""
    return [claim for claim in claims if claim.phase == "Bound" and not claim.is_being_deleted]


def deleted_line(full_name: str) -> str:
    """`mpijob.kubeflow.org "N" deleted` of `mpijob.kubeflow.org/N`."""
    kind, _, name = full_name.partition("/")
    return f'{kind} "{name}" deleted'


def events_text(events: Sequence[JobEvent], now: datetime) -> str:
    """A table, with an empty line behind the events of each object."""
    rows: list[Sequence[str]] = [_EVENTS, ["-" * len(title) for title in _EVENTS]]
    ordered = sorted(events, key=lambda event: (event.source, event.at))
    for _, group in groupby(ordered, key=lambda event: event.source):
        rows += [
            (
                event.source,
                event.type,
                age(event.at, now),
                f"[{event.reason}] {' '.join(event.message.split())}",
            )
            for event in group
        ]
        rows.append(())
    return align(rows).rstrip("\n")


def trainer(kind: JobKind) -> str:
    """`MPIJOB`."""
    return kind.value.upper()


def allocated_gpus(job: JobView) -> int:
    """The GPUs of its running instances."""
    return sum(each.gpus for each in job.instances if each.status.upper() == JobPhase.RUNNING.value)


def _gpu_total(job: JobView) -> str:
    return f"Allocated/Requested GPUs of Job: {allocated_gpus(job)}/{job.requested_gpus}"


def _facts(job: JobView, now: datetime, *, wide: bool) -> list[str]:
    lines = [
        f"STATUS: {job.phase.value}",
        f"NAMESPACE: {job.namespace}",
        f"PRIORITY: {job.priority or NOTHING}",
        f"TRAINING DURATION: {short(duration_s(job, now))}",
    ]
    if wide:
        cells = zip(COST_TITLES, cost_cells(job.data_cost), strict=True)
        lines += [f"{title}: {cell}" for title, cell in cells]
        lines += [f"NOTE: {note}"] if (note := cost_note(job.data_cost)) else []
    # Where all is well the block is the seeds' own.
    return lines + ([f"REASON: {' '.join(job.reason.split())}"] if job.reason else [])


def _instance_rows(job: JobView, now: datetime) -> list[list[str]]:
    return [
        [job.name, each.status, trainer(job.kind), age(job.created, now), each.name, _node(each)]
        for each in job.instances
    ]


def _node(instance: InstanceView) -> str:
    return instance.node_address or instance.node or NOTHING


def _chief_address(job: JobView) -> str:
    return _node(job.chief) if job.chief else NOTHING


def _named(with_namespace: bool) -> list[str]:
    return ["NAMESPACE", "NAME"] if with_namespace else ["NAME"]


def _name(job: JobView, with_namespace: bool) -> list[str]:
    return [job.namespace, job.name] if with_namespace else [job.name]


def _rule(text: str) -> str:
    return "-" * max(len(line) for line in text.splitlines())

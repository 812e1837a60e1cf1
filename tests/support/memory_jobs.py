"""A backend of jobs that keeps everything in memory: for tests of commands, which never ask where jobs run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.errors import ConfigError, TakenJobError
from headrace.jobs.backend import LogWish
from headrace.jobs.job_choice import only_job
from headrace.jobs.known_words import taken_job
from headrace.jobs.naming import full_name, record_name
from headrace.jobs.objects import job_objects, shown
from headrace.jobs.planning import placement_problems
from headrace.jobs.spec import JobKind, JobSpec, Resources, Role, RoleName
from headrace.jobs.views import ClaimView, InstanceView, JobPhase, JobView, NodeRoom

BEGIN = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def long_ago() -> datetime:
    """As long ago as the job of seed 000 when the document shows it."""
    return datetime.now(UTC) - timedelta(minutes=56, seconds=5)


def dataset_claim(name: str) -> ClaimView:
    """The claim of a dataset that is cached whole."""
    return ClaimView(
        name, "default", ("ReadWriteMany",), "Bound", long_ago(), is_dataset=True, cached="100.0%"
    )


def mpi_spec(name: str = "horovod-resnet50", **changed: Any) -> JobSpec:
    """The seeds' job, four workers with eight GPUs."""
    roles = (
        Role(name=RoleName.LAUNCHER, replicas=1),
        Role(name=RoleName.WORKER, replicas=4, resources=Resources(gpus=8)),
    )
    given = {
        "namespace": "default",
        "kind": JobKind.MPI,
        "roles": roles,
        "image": "registry/horovod:0.18.1",
        "command": ("./launch-example.sh", "4", "8"),
    }
    return JobSpec(name=name, **{**given, **changed})


def seed_view(
    name: str = "horovod-resnet50", *, ago: timedelta = timedelta(minutes=56), **changed: Any
) -> JobView:
    """The job of seed 000 as it is shown there, when looked at `ago` after `BEGIN`."""
    nodes = ("192.168.0.15", "192.168.0.15", "192.168.0.14", "192.168.0.12", "192.168.0.13")
    names = [f"{name}-launcher-xs7h4", *(f"{name}-worker-{number}" for number in range(4))]
    instances = tuple(
        InstanceView(
            name=each,
            role=RoleName.WORKER if number else RoleName.LAUNCHER,
            index=max(number - 1, 0),
            status="RUNNING",
            node=f"node-{number}",
            node_address=node,
            created=BEGIN,
            gpus=8 if number else 0,
            is_chief=not number,
        )
        for number, (each, node) in enumerate(zip(names, nodes, strict=True))
    )
    given = {
        "namespace": "default",
        "kind": JobKind.MPI,
        "phase": JobPhase.RUNNING,
        "uid": "5f0c",
        "created": BEGIN,
        "started": BEGIN,
        "instances": instances,
    }
    return JobView(name=name, **{**given, **changed})


@dataclass
class MemoryJobBackend:
    """Jobs, claims and nodes as a test puts them in."""

    views: list[JobView] = field(default_factory=list)
    submitted: list[JobSpec] = field(default_factory=list)
    volumes: list[ClaimView] = field(default_factory=list)
    rooms: list[NodeRoom] = field(default_factory=list)
    lines: dict[str, list[bytes]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    wishes: list[LogWish] = field(default_factory=list)
    attached: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    tended: list[str] = field(default_factory=list)
    default_namespace: str = "default"
    needs_images: bool = True
    course: list[JobPhase] = field(default_factory=list)
    """What the next looks at a job show, one after the other."""

    def notices(self, spec: JobSpec) -> Sequence[str]:
        return self.said

    def problems(self, spec: JobSpec) -> Sequence[str]:
        known = {volume.name for volume in self.volumes}
        missing = [f"--data {each.claim} is not there" for each in spec.data if each.claim not in known]
        return [*missing, *(placement_problems(spec, self.rooms) if self.rooms else ())]

    def objects(self, spec: JobSpec) -> Sequence[dict[str, Any]]:
        return [shown(thing) for thing in job_objects(spec)]

    def submit(self, spec: JobSpec) -> Sequence[str]:
        if any(view.name == spec.name and view.kind is spec.kind for view in self.views):
            raise TakenJobError.of(taken_job(spec))
        self.submitted.append(spec)
        self.views.append(seed_view(spec.name, namespace=spec.namespace, kind=spec.kind, spec=spec))
        return [full_name(spec.kind, spec.name), f"configmap/{record_name(spec.name, spec.kind)}"]

    def get(self, namespace: str, name: str, kind: JobKind | None, *, events: bool = False) -> JobView:
        found = [view for view in self.jobs(namespace, kind) if view.name == name]
        view = only_job(found, lambda each: each.kind, namespace, name, kind)
        if self.course:
            self.views.remove(view)
            view = replace(view, phase=self.course.pop(0))
            self.views.append(view)
        return view if events else replace(view, events=())

    def jobs(self, namespace: str | None, kind: JobKind | None = None) -> Sequence[JobView]:
        return [
            view for view in self.views if namespace in (None, view.namespace) and kind in (None, view.kind)
        ]

    def logs(self, job: JobView, wish: LogWish) -> Iterator[bytes]:
        self.wishes.append(wish)
        yield from self.lines.get(wish.instance, ())[-(wish.tail or 0) :]

    def delete(self, job: JobView) -> Sequence[str]:
        self.views.remove(next(view for view in self.views if view.uid == job.uid and view.name == job.name))
        return [full_name(job.kind, job.name), f"configmap/{record_name(job.name, job.kind)}"]

    def tend(self, job: JobView) -> None:
        self.tended.append(job.name)

    def release(self, job: JobView) -> Sequence[str]:
        if job.phase is JobPhase.RUNNING:
            raise ConfigError.of(f"job {job.name} runs")
        return [f"job {job.name} started"] if job.phase is JobPhase.SUSPENDED else []

    def attach(self, job: JobView, instance: str, container: str, command: Sequence[str]) -> int:
        self.attached.append((instance, container, tuple(command)))
        return 7

    def claims(self, namespace: str | None) -> Sequence[ClaimView]:
        return [volume for volume in self.volumes if namespace in (None, volume.namespace)]

    def nodes(self) -> Sequence[NodeRoom]:
        return self.rooms

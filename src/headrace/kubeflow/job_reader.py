"""Reads jobs from the API server, with what is known of them there."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.jobs.job_choice import only_job
from headrace.jobs.naming import GROUP, KINDS, record_name, tensorboard_name
from headrace.jobs.objects import recorded_spec, warm_percent
from headrace.jobs.old_kinds import OLD
from headrace.jobs.spec import JobKind
from headrace.jobs.tensorboard import PORT
from headrace.jobs.views import JobEvent, JobPhase, JobView
from headrace.jobs.warmth import cold_words, warmths_of
from headrace.kube.discovery import Reader, at_version, served_versions, spec_fields
from headrace.kube.resources import Resource
from headrace.kubeflow.cluster_api import Cluster
from headrace.kubeflow.job_views import Known, pods_of, view_of
from headrace.kubeflow.names import WORDS, Content, time_of
from headrace.kubeflow.phases import is_suspended
from headrace.kubeflow.sources import claims_of_job

JOB_NAME_LABELS = ("training.kubeflow.org/job-name", "mpi_job_name", "pytorch-job-name", "tf-job-name")


class Served(Reader, Cluster, Protocol):
    """A cluster that can be asked which kinds it serves, and told which version to speak."""

    def serve(self, resource: Resource) -> None:
        """Asks for a kind at this place from now on."""


class Jobs:
    """Jobs as they are now."""

    def __init__(self, cluster: Served) -> None:
        self.cluster = cluster
        self._served: dict[JobKind, str] | None = None

    async def served(self) -> dict[JobKind, str]:
        """The version of each kind of job that the cluster serves and we can write; it may serve none."""
        if self._served is None:
            found = await served_versions(self.cluster, GROUP)
            self._served = {}
            for kind, words in WORDS.items():
                version = next((each for each in words.versions if each in found.get(KINDS[kind], ())), None)
                if version:
                    self._served[kind] = version
                    self.cluster.serve(at_version(KINDS[kind], version))
        return self._served

    async def written(self, kind: JobKind) -> str | None:
        """The version that a job of this kind is to be written in; `None` where the cluster does not serve it."""
        version = (await self.served()).get(kind)
        if version != "v1" or kind is JobKind.MPI:
            return version
        # Two operators have kinds of this version, and only their schemas tell which of the two is here.
        fields = await spec_fields(self.cluster, GROUP, version, KINDS[kind])
        return OLD if fields and "runPolicy" not in fields else version

    async def find(self, namespace: str, name: str, kind: JobKind | None) -> list[Content]:
        """The jobs of a name, of all kinds or of one."""
        kinds = [each for each in await self.served() if kind in (None, each)]
        found = [await self.cluster.get(KINDS[each], namespace, name) for each in kinds]
        return [each for each in found if each is not None]

    async def one(self, namespace: str, name: str, kind: JobKind | None) -> Content:
        """The job. Raises `MissingJobError` or `AmbiguousJobError`."""
        found = await self.find(namespace, name, kind)
        return only_job(found, lambda job: JobKind(job["kind"].lower()), namespace, name, kind)

    async def pods(self, namespace: str | None) -> list[Content]:
        """The pods of all jobs."""
        listed = [await self.cluster.list("Pod", namespace, {label: None}) for label in JOB_NAME_LABELS]
        return [pod for found in listed for pod in found]

    async def pods_of(self, job: Content) -> list[Content]:
        """The pods of one job."""
        metadata = job["metadata"]
        for label in JOB_NAME_LABELS:
            found = await self.cluster.list("Pod", metadata["namespace"], {label: metadata["name"]})
            if found:
                return pods_of(job, found)
        return []

    async def view(self, job: Content, *, events: bool) -> JobView:
        """The job as it is shown."""
        pods = await self.pods_of(job)
        seen = view_of(job, pods)
        # The last warning may say why it waits.
        told = await self._events(seen) if events or seen.phase is JobPhase.PENDING else ()
        record, service, cold = await asyncio.gather(
            self._record(seen), self._tensorboard(seen), self._cold(job)
        )
        known = Known(
            events=told, spec=recorded_spec(record) if record else None, tensorboard=service, cold=cold
        )
        return view_of(job, pods, known)

    async def views(self, namespace: str | None, kind: JobKind | None) -> list[JobView]:
        """All jobs, the newest first."""
        kinds = [each for each in await self.served() if kind in (None, each)]
        listed = await asyncio.gather(*(self.cluster.list(KINDS[each], namespace) for each in kinds))
        jobs = [job for found in listed for job in found]
        pods = await self.pods(namespace) if jobs else []
        found = [view_of(job, pods_of(job, pods)) for job in jobs]
        return sorted(found, key=lambda each: (each.created, each.name), reverse=True)

    async def _record(self, job: JobView) -> Content | None:
        return await _unless_refused(
            self.cluster, "ConfigMap", job.namespace, record_name(job.name, job.kind)
        )

    async def _tensorboard(self, job: JobView) -> str:
        found = await _unless_refused(self.cluster, "Service", job.namespace, tensorboard_name(job.name))
        return f"http://{tensorboard_name(job.name)}.{job.namespace}:{PORT}" if found else ""

    async def _cold(self, job: Content) -> str:
        wish = warm_percent(job)
        if not wish or not is_suspended(job):
            return ""
        namespace = job["metadata"]["namespace"]
        found = [
            await _unless_refused(self.cluster, "Dataset", namespace, claim) for claim in claims_of_job(job)
        ]
        return cold_words(
            wish,
            warmths_of(found),
        )

    async def _events(self, job: JobView) -> tuple[JobEvent, ...]:
        names = {job.name, f"{job.name}-launcher", *(each.name for each in job.instances)}
        try:
            listed = await self.cluster.list("Event", job.namespace)
        except HeadraceError:
            # Who may not read events is told the rest.
            return ()
        found = [_event(each) for each in listed if _is_about(each, names, job)]
        return tuple(sorted(found, key=lambda each: each.at))


async def _unless_refused(cluster: Cluster, kind: str, namespace: str, name: str) -> Content | None:
    """What is nice to know, and no reason to show nothing at all: without the rights, or the kind, it is not known."""
    try:
        return await cluster.get(kind, namespace, name)
    except HeadraceError:
        return None


def _is_about(event: Content, names: set[str], job: JobView) -> bool:
    about = event.get("involvedObject") or {}
    if about.get("name") not in names or about.get("kind") not in (KINDS[job.kind], "Pod", "Job"):
        return False
    at = _moment(event)
    # Those of an earlier job of the same name stay for an hour.
    return at is not None and at >= job.created.replace(microsecond=0)


def _event(event: Content) -> JobEvent:
    about = event["involvedObject"]
    return JobEvent(
        source=f"{about['kind'].lower()}/{about['name']}",
        type=event.get("type") or "Normal",
        at=_moment(event) or datetime.now(UTC),
        reason=event.get("reason") or "",
        message=(event.get("message") or "").strip(),
    )


def _moment(event: Content) -> datetime | None:
    for key in ("lastTimestamp", "eventTime", "firstTimestamp"):
        if event.get(key):
            return time_of(event[key])
    return time_of(event["metadata"].get("creationTimestamp"))

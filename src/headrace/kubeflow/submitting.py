"""Creates a job with all that belongs to it, or nothing; deletes it with all that was made for it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from headrace.errors import HeadraceError, TakenJobError
from headrace.jobs.known_words import taken_job
from headrace.jobs.naming import KINDS, full_name, record_name, tensorboard_name
from headrace.jobs.objects import job_objects, owned
from headrace.jobs.spec import JobSpec
from headrace.jobs.views import JobView
from headrace.kube.faults import ConflictError
from headrace.kubeflow.cluster_api import Cluster
from headrace.kubeflow.names import Content
from headrace.kubeflow.problems import is_foreign

_PARTS = ("ConfigMap", "Secret")


async def submit(cluster: Cluster, spec: JobSpec, version: str) -> list[str]:
    """The created objects. Raises `TakenJobError`, and whatever the API server says against an object."""
    job, *parts = job_objects(spec, version=version)
    # Nothing is made of what the server would refuse in the end.
    await _create(cluster, job, spec, trial=True)
    made: list[Content] = []
    try:
        # Its pods need the parts, and the parts need it: so these come first, and learn whose they are after.
        for part in parts:
            made.append(await _create_part(cluster, part, spec))
        created = await _create(cluster, job, spec)
        made.append(created)
        for part in made[:-1]:
            references = {"ownerReferences": owned(part, created)["metadata"]["ownerReferences"]}
            await cluster.patch(
                part["kind"], spec.namespace, part["metadata"]["name"], {"metadata": references}
            )
    except BaseException:
        await _undo(cluster, made)
        raise
    return [full_name(spec.kind, spec.name), *(_title(part) for part in made[:-1])]


async def delete(cluster: Cluster, job: JobView) -> list[str]:
    """The deleted objects: the job, and everything made for it by a submission."""
    names = [(kind, record_name(job.name, job.kind)) for kind in _PARTS]
    names += [(kind, tensorboard_name(job.name)) for kind in ("Deployment", "Service")]
    # Looked up before: once their owner is gone they go by themselves.
    looked_up = [await _own_part(cluster, kind, job, name) for kind, name in names]
    parts = [part for part in looked_up if part is not None]
    await cluster.delete(KINDS[job.kind], job.namespace, job.name, uid=job.uid)
    for part in parts:
        metadata = part["metadata"]
        await cluster.delete(part["kind"], job.namespace, metadata["name"], uid=metadata["uid"])
    return [full_name(job.kind, job.name), *map(_title, parts)]


async def _own_part(cluster: Cluster, kind: str, job: JobView, name: str) -> Content | None:
    try:
        found = await cluster.get(kind, job.namespace, name)
    except HeadraceError:
        # It goes with its owner; there is nothing to tell of it.
        return None
    owners = ((found or {}).get("metadata") or {}).get("ownerReferences") or ()
    return found if any(each.get("uid") == job.uid for each in owners) else None


async def _create(cluster: Cluster, job: Content, spec: JobSpec, *, trial: bool = False) -> Content:
    try:
        return await cluster.create(job, trial=trial)
    except ConflictError:
        raise TakenJobError.of(taken_job(spec)) from None


async def _create_part(cluster: Cluster, part: Content, spec: JobSpec) -> Content:
    """What a submission left behind that was killed is replaced; what is another's is left alone."""
    kind, name = part["kind"], part["metadata"]["name"]
    try:
        return part | await cluster.create(part)
    except ConflictError:
        found = await cluster.get(kind, spec.namespace, name)
        if found is not None and (is_foreign(found, spec) or found["metadata"].get("ownerReferences")):
            raise TakenJobError.of(
                f"there is a {kind} {name} in {spec.namespace} already",
                hint="choose another name for the job, or delete it",
            ) from None
        await cluster.delete(kind, spec.namespace, name)
        return part | await cluster.create(part)


async def _undo(cluster: Cluster, made: Sequence[Content]) -> None:
    for each in reversed(made):
        with contextlib.suppress(HeadraceError):
            metadata = each["metadata"]
            await cluster.delete(each["kind"], metadata["namespace"], metadata["name"])


def _title(part: Content) -> str:
    group = "deployment.apps" if part["kind"] == "Deployment" else part["kind"].lower()
    return f"{group}/{part['metadata']['name']}"

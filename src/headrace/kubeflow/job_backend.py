"""The `JobBackend` on Kubernetes: each question is answered from the API server, and nothing is kept here."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, Self, TypeVar

from headrace.errors import ConfigError, HeadraceError, MissingFileError, RefusedError
from headrace.jobs.backend import LogWish
from headrace.jobs.objects import job_objects, shown, warm_percent
from headrace.jobs.spec import JobKind, JobSpec
from headrace.jobs.views import ClaimView, JobView, NodeRoom
from headrace.kube.connection import configuration, default_namespace
from headrace.kube.pod_metrics import ProxiedScraper
from headrace.kubeflow import submitting
from headrace.kubeflow.cluster_api import KubeCluster
from headrace.kubeflow.job_reader import Jobs
from headrace.kubeflow.job_reconciler import JobReconciler
from headrace.kubeflow.keeper_probe import keeper_runs
from headrace.kubeflow.kubectl_exec import Place, attach
from headrace.kubeflow.log_reading import Logs
from headrace.kubeflow.names import WORDS, Content
from headrace.kubeflow.nodes import claim_of, room_of, with_allocated
from headrace.kubeflow.phases import is_suspended
from headrace.kubeflow.problems import problems_of

FIELD_MANAGER = "headrace-arena"
_MOST_POLLS = 20

Answer = TypeVar("Answer")


class KubeflowBackend:
    """Jobs of one cluster. To be used by one thread; `close` it, or leave that to the end of the process."""

    def __init__(self, client: KubeCluster, loop: asyncio.AbstractEventLoop, reach: Place) -> None:
        self._loop, self._client, self._reach = loop, client, reach
        self._jobs = Jobs(client)
        self._reconciler = JobReconciler(client, ProxiedScraper(client))
        atexit.register(self.close)

    @classmethod
    def open(cls, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """The cluster of a kubeconfig, as kubectl would choose it. Raises `ConfigError` when there is none."""
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(cls._opened(loop, kubeconfig, context))
        except BaseException:
            loop.close()
            raise

    @classmethod
    async def _opened(
        cls, loop: asyncio.AbstractEventLoop, kubeconfig: str | None, context: str | None
    ) -> Self:
        client = KubeCluster(await configuration(kubeconfig, context), FIELD_MANAGER)
        reach = Place(default_namespace(kubeconfig, context), "", "", kubeconfig or "", context or "")
        return cls(client, loop, reach)

    def close(self) -> None:
        """Ends the connections. Safe to call twice."""
        atexit.unregister(self.close)
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._client.__aexit__())
            self._loop.close()

    @property
    def default_namespace(self) -> str:
        """The context's, else `default`."""
        return self._reach.namespace

    @property
    def needs_images(self) -> bool:
        """True: processes are containers."""
        return True

    def notices(self, spec: JobSpec) -> Sequence[str]:  # noqa: ARG002 - the protocol asks
        """Nothing: Kubernetes knows all that can be asked for."""
        return ()

    def problems(self, spec: JobSpec) -> Sequence[str]:
        """The obstacles to submitting, each a sentence. Changes nothing."""
        return self._run(problems_of(self._jobs, spec))

    def objects(self, spec: JobSpec) -> Sequence[Content]:
        """The objects that `submit` would create; also without a cluster that answers, then for the version
        preferred."""
        try:
            version = self._run(self._version(spec.kind))
        except HeadraceError:
            version = WORDS[spec.kind].versions[0]
        return [shown(each) for each in job_objects(spec, version=version)]

    def submit(self, spec: JobSpec) -> Sequence[str]:
        """Creates the job, all of it or nothing."""
        return self._run(self._submit(spec))

    def get(self, namespace: str, name: str, kind: JobKind | None, *, events: bool = False) -> JobView:
        """One job."""
        return self._run(self._get(namespace, name, kind, events))

    def jobs(self, namespace: str | None, kind: JobKind | None = None) -> Sequence[JobView]:
        """All jobs of a namespace (None: of all), the newest first. Raises `MissingFileError` where it is not there."""
        return self._run(self._views(namespace, kind))

    def logs(self, job: JobView, wish: LogWish) -> Iterator[bytes]:
        """Lines with their ends, also of pods that are gone, as far as the keeper kept them."""
        lines = Logs(self._jobs, job, wish).lines()
        try:
            while (line := self._run(_next(lines))) is not None:
                yield line
        finally:
            self._run(_close(lines))

    def delete(self, job: JobView) -> Sequence[str]:
        """Deletes it, with all that was made for it; its pods end by themselves."""
        return self._run(submitting.delete(self._client, job))

    def tend(self, job: JobView) -> None:
        """One pass over the job, if no keeper looks at it. Tasks that the user has no rights for are left to the
        keeper."""
        self._run(self._tend(job))

    def release(self, job: JobView) -> Sequence[str]:
        """Starts a job that is held back, or frees the volumes of one that has ended."""
        return self._run(self._release(job))

    def attach(self, job: JobView, instance: str, container: str, command: Sequence[str]) -> int:
        """Runs a program in a running pod; its exit code."""
        chief = job.chief
        name = instance or (chief.name if chief else "")
        if not any(each.name == name for each in job.instances):
            names = ", ".join(each.name for each in job.instances) or "none yet"
            raise ConfigError.of(f"{name or job.name} has no such instance", hint=f"its instances: {names}")
        place = Place(job.namespace, name, container, self._reach.kubeconfig, self._reach.context)
        return attach(place, command)

    def claims(self, namespace: str | None) -> Sequence[ClaimView]:
        """Claims, those of datasets among them."""
        return self._run(self._claims(namespace))

    def nodes(self) -> Sequence[NodeRoom]:
        """Nodes, with the GPUs that are taken."""
        return self._run(self._nodes())

    async def _version(self, kind: JobKind) -> str:
        return await self._jobs.written(kind) or WORDS[kind].versions[0]

    async def _submit(self, spec: JobSpec) -> list[str]:
        return await submitting.submit(self._client, spec, await self._version(spec.kind))

    async def _get(self, namespace: str, name: str, kind: JobKind | None, events: bool) -> JobView:
        return await self._jobs.view(await self._jobs.one(namespace, name, kind), events=events)

    async def _views(self, namespace: str | None, kind: JobKind | None) -> list[JobView]:
        found = await self._jobs.views(namespace, kind)
        if namespace is not None and not found:
            await self._check_namespace(namespace)
        return found

    async def _check_namespace(self, namespace: str) -> None:
        """A script that misspelt it shall not take it for one without jobs. Who may not ask is told of no jobs."""
        try:
            there = await self._client.get("Namespace", None, namespace)
        except HeadraceError:
            return
        if there is None:
            raise MissingFileError.of(f"there is no namespace {namespace}", hint="kubectl get namespaces")

    async def _found(self, job: JobView) -> Content:
        """The very job that was seen. Raises `MissingJobError`."""
        return await self._jobs.one(job.namespace, job.name, job.kind)

    async def _tend(self, view: JobView) -> None:
        if await keeper_runs(self._client):
            return
        try:
            job = await self._found(view)
            await self._reconciler.reconcile(job, await self._jobs.pods_of(job))
        except (RefusedError, MissingFileError):
            return

    async def _release(self, view: JobView) -> list[str]:
        job = await self._found(view)
        if is_suspended(job) and not view.phase.has_ended:
            await self._reconciler.start(job)
            waited = "waiting for its data" if warm_percent(job) else "being held back"
            return [f"{view.name} starts without {waited} any longer"]
        if not view.phase.has_ended:
            raise ConfigError.of(
                f"{view.name} is {view.phase.value}, and needs its volumes",
                hint=f"`arena delete {view.name}` ends it",
            )
        return await self._free(job)

    async def _free(self, job: Content) -> list[str]:
        """Looks until there is nothing more to do; what of it could not be done raises what speaks against it."""
        before = {pod["metadata"]["name"] for pod in await self._jobs.pods_of(job)}
        for _ in range(_MOST_POLLS):
            wait_s = await self._reconciler.reconcile(job, await self._jobs.pods_of(job))
            if wait_s is None or wait_s > 10:
                break
            job = await self._jobs.one(job["metadata"]["namespace"], job["metadata"]["name"], None)
        after = {pod["metadata"]["name"] for pod in await self._jobs.pods_of(job)}
        gone = sorted(before - after)
        return [f"{name} is gone, and its log is kept" for name in gone]

    async def _claims(self, namespace: str | None) -> list[ClaimView]:
        claims = await self._client.list("PersistentVolumeClaim", namespace)
        try:
            datasets = await self._client.list("Dataset", namespace)
        except HeadraceError:
            datasets = []
        known = {_key(each): each for each in datasets}
        return [claim_of(each, known.get(_key(each))) for each in claims]

    async def _nodes(self) -> list[NodeRoom]:
        rooms = [room_of(node) for node in await self._client.list("Node")]
        try:
            return with_allocated(rooms, await self._client.list("Pod"))
        except RefusedError:
            return rooms

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self._loop.run_until_complete(work)


def _key(content: Content) -> tuple[str, str]:
    return content["metadata"].get("namespace") or "", content["metadata"]["name"]


async def _next(lines: AsyncIterator[bytes]) -> bytes | None:
    return await anext(lines, None)


async def _close(lines: AsyncIterator[bytes]) -> None:
    closing = getattr(lines, "aclose", None)
    if closing is not None:
        await closing()

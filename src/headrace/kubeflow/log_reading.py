"""The lines of a job's instances: of pods that are there as they print them, of others as they were kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from headrace.errors import ConfigError, HeadraceError, MissingFileError
from headrace.jobs.backend import LogWish
from headrace.jobs.code import CONTAINER as INIT_CONTAINER
from headrace.jobs.views import InstanceView, JobView
from headrace.kube.pod_logs import LogQuery
from headrace.kubeflow.job_reader import Jobs
from headrace.kubeflow.kept_logs import KeptLog, kept_logs, shown
from headrace.kubeflow.names import LOG_LABEL, WORDS, Content

_POLL_S = 1.0


class Logs:
    """Reads the logs of one job."""

    def __init__(self, jobs: Jobs, job: JobView, wish: LogWish) -> None:
        self._jobs, self._job, self._wish = jobs, job, wish

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines that are wished for, with their ends."""
        view = await self._fresh()
        if self._wish.all_instances:
            async for line in self._of_all(view):
                yield line
            return
        seen: set[str] = set()
        while True:
            instance = self._chosen(view)
            seen.add(_life(instance))
            async for line in self._of(instance, follow=self._wish.follow):
                yield line
            following = await self._next(seen)
            if following is None:
                return
            view = following

    async def _next(self, seen: set[str]) -> JobView | None:
        """The job when there is more to follow: a launcher that failed may be followed by another one."""
        while self._wish.follow and not self._wish.instance:
            try:
                view = await self._fresh()
            except MissingFileError:
                return None
            if view.chief and _life(view.chief) not in seen:
                return view
            if view.phase.has_ended:
                return None
            await asyncio.sleep(_POLL_S)
        return None

    async def _fresh(self) -> JobView:
        job = await self._jobs.one(self._job.namespace, self._job.name, self._job.kind)
        return await self._jobs.view(job, events=False)

    def _chosen(self, view: JobView) -> InstanceView:
        if not self._wish.instance:
            if view.chief is not None:
                return view.chief
            if len(view.instances) == 1:
                return view.instances[0]
            raise ConfigError.of(
                f"{view.name} has no log yet: {view.reason or 'none of its pods has begun'}",
                hint="`arena get` says how it stands",
            )
        found = next((each for each in view.instances if each.name == self._wish.instance), None)
        if found is None:
            names = ", ".join(each.name for each in view.instances) or "none yet"
            raise ConfigError.of(
                f"{self._wish.instance} is no instance of {view.name}", hint=f"its instances: {names}"
            )
        return found

    async def _of_all(self, view: JobView) -> AsyncIterator[bytes]:
        """Of each instance, each line behind its name; what is followed comes mixed, as it is printed."""
        if not self._wish.follow:
            for instance in view.instances:
                async for line in self._of(instance, follow=False, patient=False):
                    yield _named(instance, line)
            return
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(1000)
        tasks = [asyncio.ensure_future(self._hand_on(each, queue)) for each in view.instances]
        try:
            left = len(tasks)
            while left:
                said = await queue.get()
                left -= said is None
                if said is not None:
                    yield said
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _hand_on(self, instance: InstanceView, queue: asyncio.Queue[bytes | None]) -> None:
        try:
            async for line in self._of(instance, follow=True, patient=False):
                await queue.put(_named(instance, line))
        finally:
            await queue.put(None)

    async def _of(
        self, instance: InstanceView, *, follow: bool, patient: bool = True
    ) -> AsyncIterator[bytes]:
        """The lines of one instance. One of many that has none is passed over: `patient` is for one alone."""
        while True:
            try:
                async for line in self._living(instance, follow=follow):
                    yield line
                return
            except MissingFileError:
                for line in await self._kept(instance, patient=patient):
                    yield line
                return
            except ConfigError as error:
                if not follow and not patient:
                    return
                if not follow:
                    raise _not_begun(instance, error) from None
                if await self._has_ended():
                    return
                await asyncio.sleep(_POLL_S)

    async def _living(self, instance: InstanceView, *, follow: bool) -> AsyncIterator[bytes]:
        pod = await self._jobs.cluster.get("Pod", self._job.namespace, instance.name)
        if pod is None:
            raise MissingFileError.of(f"the pod {instance.name} is gone")
        wish = self._wish
        for container in _containers(pod, wish.container, both=follow):
            query = LogQuery(container, follow, wish.tail, wish.since, wish.timestamps)
            async for line in self._jobs.cluster.log(self._job.namespace, instance.name, query):
                yield line

    async def _kept(self, instance: InstanceView, *, patient: bool) -> Sequence[bytes]:
        job = await self._jobs.one(self._job.namespace, self._job.name, self._job.kind)
        found = [each for each in await self._kept_logs(job) if each.pod == instance.name]
        wanted = [each for each in found if self._wish.container in ("", each.container)]
        if not wanted and patient:
            raise MissingFileError.of(
                f"the log of {instance.name} is gone with its pod",
                hint="the keeper of jobs keeps logs: see jobs.enabled of the chart",
            )
        # Without a word for it the job's own container is meant, not one that made things ready.
        own = WORDS[self._job.kind].container
        log = min(wanted, key=lambda each: each.container != own, default=None)
        wish = self._wish
        return shown(log.lines, since=wish.since, tail=wish.tail, timestamps=wish.timestamps) if log else ()

    async def _kept_logs(self, job: Content) -> list[KeptLog]:
        labels = {LOG_LABEL: job["metadata"]["name"]}
        return kept_logs(job, await self._jobs.cluster.list("ConfigMap", self._job.namespace, labels))

    async def _has_ended(self) -> bool:
        try:
            return (await self._fresh()).phase.has_ended
        except MissingFileError:
            return True


def _containers(pod: Content, wanted: str, *, both: bool) -> list[str]:
    """The container that is wanted, else the job's own; as long as its code is being fetched, what fetches it."""
    if wanted:
        return [wanted]
    own = [str(pod["spec"]["containers"][0]["name"])]
    states = (pod.get("status") or {}).get("initContainerStatuses") or ()
    is_fetching = any(
        each.get("name") == INIT_CONTAINER and (each.get("state") or {}).get("running") for each in states
    )
    return ([INIT_CONTAINER, *own] if both else [INIT_CONTAINER]) if is_fetching else own


def _life(instance: InstanceView) -> str:
    return f"{instance.name} {instance.created}"


def _named(instance: InstanceView, line: bytes) -> bytes:
    return b"[" + instance.name.encode() + b"] " + line


def _not_begun(instance: InstanceView, error: HeadraceError) -> ConfigError:
    return ConfigError.of(
        f"{instance.name} has printed nothing yet: {instance.reason or instance.status}",
        hint=error.hint or "`--follow` waits for it",
    )

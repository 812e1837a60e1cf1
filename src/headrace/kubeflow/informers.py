"""The keeper's view of the cluster: the jobs, and the pods of each, kept up to date by watches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.jobs.naming import JOB_LABEL, KINDS, MANAGED_BY
from headrace.jobs.spec import JobKind
from headrace.kubeflow.cluster_api import Labels
from headrace.kubeflow.job_reader import Jobs, Served
from headrace.kubeflow.names import Content, job_name_of, kind_word_of
from headrace.work_queue import back_off_s

_log = logging.getLogger("headrace.jobs")
_DISCOVERY_POLL_S = 30.0
_KINDS = "which kinds there are"

Key = tuple[str, str]
"""Namespace, and kind and name of a job: `mpijob/name`."""
OnChange = Callable[[Key], None]
"""Hears of each job that something changed about."""


class Watched(Served, Protocol):
    """A cluster whose changes can be followed."""

    def watch(
        self, kind: str, namespace: str | None = None, labels: Labels | None = None, fields: str = ""
    ) -> AsyncIterator[tuple[str, Content]]:
        """Every object, `SYNCED`, then each change, for ever."""


class Informers:
    """The watches. `ready` is set once the pods and the jobs of each kind that is served were listed."""

    def __init__(self, cluster: Watched, on_change: OnChange) -> None:
        self._cluster, self._on_change = cluster, on_change
        self._pods: dict[Key, dict[str, Content]] = {}
        self._gone: dict[Key, dict[str, Content]] = {}
        self._jobs: dict[str, set[Key]] = {}
        self._unlisted = {"Pod", _KINDS}
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Follows until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow("Pod", {JOB_LABEL: None}))
            followed: set[JobKind] = set()
            while True:
                for kind in await self._served() - followed:
                    followed.add(kind)
                    self._unlisted.add(KINDS[kind])
                    tasks.create_task(self._follow(KINDS[kind], {"app.kubernetes.io/managed-by": MANAGED_BY}))
                self._note_listed(_KINDS)
                await asyncio.sleep(_DISCOVERY_POLL_S)

    def keys(self) -> list[Key]:
        """All jobs that are known."""
        return [key for known in self._jobs.values() for key in known]

    def pods(self, key: Key) -> list[Content]:
        """The pods of a job that are there."""
        return list(self._pods.get(key, {}).values())

    def take_gone(self, key: Key) -> list[Content]:
        """The jobs that went since the last question, as they were seen last."""
        return list(self._gone.pop(key, {}).values())

    def give_back(self, key: Key, gone: list[Content]) -> None:
        """They could not be noted, and are told of again."""
        for pod in gone:
            self._gone.setdefault(key, {}).setdefault(_uid(pod), pod)

    async def _served(self) -> set[JobKind]:
        try:
            # Operators come and go while the keeper runs.
            return set(await Jobs(self._cluster).served())
        except HeadraceError as error:
            _log.warning("which kinds of jobs there are is not known: %s", error)
            return set()

    async def _follow(self, kind: str, labels: Labels) -> None:
        failures = 0
        while True:
            try:
                seen: set[str] = set()
                async for what, content in self._cluster.watch(kind, labels=labels):
                    failures = 0
                    if what == "SYNCED":
                        self._forget_all_but(kind, seen)
                        seen = set()
                        self._note_listed(kind)
                    else:
                        seen |= {_uid(content)} if what == "SYNC" else set()
                        self._take(kind, what, content)
            except HeadraceError as error:
                failures += 1
                _log.warning("%s cannot be watched: %s", kind, error)
                await asyncio.sleep(back_off_s(failures))

    def _take(self, kind: str, what: str, content: Content) -> None:
        if kind == "Pod":
            self._take_pod(what, content)
            return
        key = key_of(kind, content)
        known = self._jobs.setdefault(kind, set())
        if what == "DELETED":
            known.discard(key)
            self._gone.pop(key, None)
        else:
            known.add(key)
        self._on_change(key)

    def _take_pod(self, what: str, content: Content) -> None:
        key = _key_of_pod(content)
        uid, pods = _uid(content), self._pods.setdefault(key, {})
        if what == "DELETED":
            pods.pop(uid, None)
            self._gone.setdefault(key, {})[uid] = content
        else:
            pods[uid] = content
        if not pods:
            del self._pods[key]
        self._on_change(key)

    def _forget_all_but(self, kind: str, seen: set[str]) -> None:
        """What went while nobody watched."""
        if kind == "Pod":
            there = [pod for pods in self._pods.values() for pod in pods.values()]
            for pod in there:
                if _uid(pod) not in seen:
                    self._take_pod("DELETED", pod)

    def _note_listed(self, kind: str) -> None:
        self._unlisted.discard(kind)
        if not self._unlisted:
            self.ready.set()


def key_of(kind: str, job: Content) -> Key:
    """The key of a job."""
    return job["metadata"].get("namespace") or "", f"{kind.lower()}/{job['metadata']['name']}"


def _key_of_pod(pod: Content) -> Key:
    name = job_name_of(pod) or (pod["metadata"].get("labels") or {}).get(JOB_LABEL, "")
    return pod["metadata"].get("namespace") or "", f"{kind_word_of(pod).value}/{name}"


def _uid(content: Content) -> str:
    return str(content["metadata"].get("uid") or "")

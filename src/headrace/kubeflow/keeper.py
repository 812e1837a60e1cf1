"""The keeper of jobs: a process that looks after each training job of the cluster, as `keeping` decides."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass

from headrace.attention import Attention, NextLook
from headrace.jobs.naming import KINDS, MANAGED_BY
from headrace.jobs.spec import JobKind
from headrace.kube.leading import Leadership, until_one_ends
from headrace.kube.pod_metrics import DirectScraper
from headrace.kube.probes import serve_probes
from headrace.kube.reaching import configuration
from headrace.kubeflow.cluster import Cluster, KubeCluster
from headrace.kubeflow.following import Following, Key, Watched
from headrace.kubeflow.keeper_sight import LEASE
from headrace.kubeflow.metrics import metrics_text
from headrace.kubeflow.names import Content, labels_of
from headrace.kubeflow.tending import Tender
from headrace.kubeflow.views_of import pods_of

_log = logging.getLogger("headrace.jobs")
FIELD_MANAGER = "headrace-jobs"


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """The keeper's own place. `identity` is its name in the election of a leader."""

    namespace: str
    identity: str
    health_port: int = 8080


class JobLooker:
    """Looks at one job at a time, each as it is now."""

    def __init__(self, cluster: Cluster, following: Following, tender: Tender) -> None:
        self._cluster, self._following, self._tender = cluster, following, tender

    async def reconcile(self, namespace: str, name: str) -> NextLook:
        """Brings the job a step further. `name` is kind and name."""
        key = (namespace, name)
        kind, _, own = name.partition("/")
        # What was noted a moment ago is in no watch yet, and must not be written over.
        job = await self._cluster.get(KINDS[JobKind(kind)], namespace, own)
        if job is None or not _is_ours(job):
            return NextLook()
        gone = self._following.take_gone(key)
        try:
            after_s = await self._tender.look(
                job, pods_of(job, self._following.pods(key)), pods_of(job, gone)
            )
        except BaseException:
            self._following.give_back(key, gone)
            raise
        return NextLook(after_s)

    async def close(self) -> None:
        """Nothing is under way between looks."""


class Keeper:
    """One process. Several may run: one leads, the others follow and wait."""

    def __init__(self, cluster: Watched, tender: Tender) -> None:
        self._cluster, self._tender = cluster, tender
        self.following = Following(cluster, self._told)
        self._attention: Attention | None = None

    async def run(self, leadership: Leadership, ended: asyncio.Event) -> None:
        """Runs until it is told to end, or can no longer lead."""
        await until_one_ends(
            "the keeper of jobs", self.following.run(), leadership.lead(self.act), ended.wait()
        )

    def metrics(self) -> str:
        """The text that Prometheus reads."""
        following = self.following
        return metrics_text(len(following.keys()), self._attention, is_ready=following.ready.is_set())

    async def act(self) -> None:
        """Looks at every job, and again at those that change, until it is cancelled."""
        await self.following.ready.wait()
        looker = JobLooker(self._cluster, self.following, self._tender)
        attention = Attention(looker, _log, "job")
        try:
            self._attention = attention
            attention.look_at(self.following.keys())
            _log.info("keeper of jobs: leads")
            await asyncio.get_running_loop().create_future()
        finally:
            self._attention = None
            await attention.close()

    def _told(self, key: Key) -> None:
        if self._attention is not None:
            self._attention.look_at([key])


async def run_keeper(settings: KeeperSettings, kubeconfig: str | None) -> int:
    """The whole life of the process; its exit code."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with KubeCluster(await configuration(kubeconfig), FIELD_MANAGER) as cluster:
        keeper = Keeper(cluster, Tender(cluster, DirectScraper()))
        leadership = Leadership(cluster, settings.namespace, LEASE, settings.identity)
        runner = await serve_probes(settings.health_port, keeper.following.ready.is_set, keeper.metrics)
        try:
            await keeper.run(leadership, ended)
        finally:
            await runner.cleanup()
    return 0


def _is_ours(job: Content) -> bool:
    """True for a job that was submitted with our commands; what others made is theirs."""
    return labels_of(job).get("app.kubernetes.io/managed-by") == MANAGED_BY

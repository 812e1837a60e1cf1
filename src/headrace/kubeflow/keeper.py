"""The keeper of jobs: a process that looks after each training job of the cluster, as `keeper_plan` decides."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass

from headrace.jobs.naming import KINDS, MANAGED_BY
from headrace.jobs.spec import JobKind
from headrace.kube.connection import configuration
from headrace.kube.leadership import Leadership, until_one_ends
from headrace.kube.pod_metrics import DirectScraper
from headrace.kube.probes import serve_probes
from headrace.kubeflow.cluster_api import Cluster, KubeCluster
from headrace.kubeflow.informers import Informers, Key, Watched
from headrace.kubeflow.job_reconciler import JobReconciler
from headrace.kubeflow.job_views import pods_of
from headrace.kubeflow.keeper_probe import LEASE
from headrace.kubeflow.metrics import metrics_text
from headrace.kubeflow.names import Content, labels_of
from headrace.otlp import exported
from headrace.work_queue import ReconcileResult, WorkQueue

_log = logging.getLogger("headrace.jobs")
FIELD_MANAGER = "headrace-jobs"


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """The keeper's own place. `identity` is its name in the election of a leader."""

    namespace: str
    identity: str
    health_port: int = 8080


class QueuedJobs:
    """Reconciles one job at a time, each as it is now."""

    def __init__(self, cluster: Cluster, informers: Informers, reconciler: JobReconciler) -> None:
        self._cluster, self._following, self._reconciler = cluster, informers, reconciler

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        """Brings the job a step further. `name` is kind and name."""
        key = (namespace, name)
        kind, _, own = name.partition("/")
        # What was noted a moment ago is in no watch yet, and must not be written over.
        job = await self._cluster.get(KINDS[JobKind(kind)], namespace, own)
        if job is None or not _is_ours(job):
            return ReconcileResult()
        gone = self._following.take_gone(key)
        try:
            after_s = await self._reconciler.reconcile(
                job, pods_of(job, self._following.pods(key)), pods_of(job, gone)
            )
        except BaseException:
            self._following.give_back(key, gone)
            raise
        return ReconcileResult(after_s)

    async def close(self) -> None:
        """Nothing is under way between passes."""


class Keeper:
    """One process. Several may run: one leads, the others follow and wait."""

    def __init__(self, cluster: Watched, reconciler: JobReconciler) -> None:
        self._cluster, self._reconciler = cluster, reconciler
        self.informers = Informers(cluster, self._on_change)
        self._queue: WorkQueue | None = None

    async def run(self, leadership: Leadership, ended: asyncio.Event) -> None:
        """Runs until it is told to end, or can no longer lead."""
        await until_one_ends(
            "the keeper of jobs", self.informers.run(), leadership.lead(self.act), ended.wait()
        )

    def metrics(self) -> str:
        """The text that Prometheus reads."""
        informers = self.informers
        return metrics_text(len(informers.keys()), self._queue, is_ready=informers.ready.is_set())

    async def act(self) -> None:
        """Reconciles every job, and again those that change, until it is cancelled."""
        await self.informers.ready.wait()
        reconciler = QueuedJobs(self._cluster, self.informers, self._reconciler)
        queue = WorkQueue(reconciler, _log, "job")
        try:
            self._queue = queue
            queue.enqueue(self.informers.keys())
            _log.info("keeper of jobs: leads")
            await asyncio.get_running_loop().create_future()
        finally:
            self._queue = None
            await queue.close()

    def _on_change(self, key: Key) -> None:
        if self._queue is not None:
            self._queue.enqueue([key])


async def run_keeper(settings: KeeperSettings, kubeconfig: str | None) -> int:
    """The whole life of the process; its exit code."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with KubeCluster(await configuration(kubeconfig), FIELD_MANAGER) as cluster:
        keeper = Keeper(cluster, JobReconciler(cluster, DirectScraper()))
        leadership = Leadership(cluster, settings.namespace, LEASE, settings.identity)
        probes = await serve_probes(settings.health_port, keeper.informers.ready.is_set, keeper.metrics)
        try:
            async with exported("headrace-jobs", keeper.metrics):
                await keeper.run(leadership, ended)
        finally:
            await probes.close()
    return 0


def _is_ours(job: Content) -> bool:
    """True for a job that was submitted with our commands; what others made is theirs."""
    return labels_of(job).get("app.kubernetes.io/managed-by") == MANAGED_BY

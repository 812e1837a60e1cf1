"""The operator's process: it follows the cluster, and acts while it leads."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import secrets
import signal

from headrace.kube.client import Content, KubeClient
from headrace.kube.connection import configuration
from headrace.kube.faults import ConflictError
from headrace.kube.leadership import Leadership, until_one_ends
from headrace.kube.probes import serve_probes
from headrace.operator.dataset_world import ClusterBackend
from headrace.operator.informers import Informers
from headrace.operator.masters import Masters
from headrace.operator.metrics import metrics_text
from headrace.operator.mirror import Mirror
from headrace.operator.operations.job_driver import Task
from headrace.operator.operations.job_drivers import work_of
from headrace.operator.reference_index import affected_datasets
from headrace.operator.reservations import Reservations
from headrace.operator.role_states import AllRoleStates
from headrace.operator.settings import OperatorSettings
from headrace.operator.status_writer import StatusWriter
from headrace.otlp import exported
from headrace.reconcile.dataset_reconciler import DatasetReconciler
from headrace.work_queue import WorkQueue

_log = logging.getLogger("headrace.operator")

KEY_SECRET = "headrace-operator-key"  # noqa: S105 - the name of an object


class Operator:
    """One process. Several may run: one leads, the others follow and wait."""

    def __init__(self, client: KubeClient, settings: OperatorSettings, digest_key: bytes) -> None:
        self._client, self._settings = client, settings
        self.mirror = Mirror(digest_key)
        self.informers = Informers(client, self.mirror, self._on_change)
        self._queue: WorkQueue | None = None

    async def run(self, ended: asyncio.Event) -> None:
        """Runs until it is told to end, or can no longer lead."""
        leader = Leadership(
            self._client, self._settings.namespace, self._settings.lease, self._settings.identity
        )
        await until_one_ends("the operator", self.informers.run(), leader.lead(self._act), ended.wait())

    def metrics(self) -> str:
        """The text that Prometheus reads."""
        return metrics_text(self.mirror, self._queue, is_ready=self.informers.ready.is_set())

    async def _act(self) -> None:
        """Reconciles every dataset, and again those that change, until it is cancelled."""
        await self.informers.ready.wait()
        queue = WorkQueue(self._reconciler(), _log)
        try:
            self._queue = queue
            for kind in (
                "Dataset",
                "AlluxioRuntime",
                "JindoRuntime",
                "StatefulSet",
                "DaemonSet",
                "ConfigMap",
            ):
                for content in list(self.mirror.all(kind)):
                    queue.enqueue(affected_datasets(self.mirror, kind, None, content))
            _log.info("operator/%s: leads", self._settings.identity)
            await asyncio.get_running_loop().create_future()
        finally:
            self._queue = None
            await queue.close()

    def _reconciler(self) -> DatasetReconciler[Task]:
        masters = Masters(self._client, self.mirror)
        backend = ClusterBackend(
            client=self._client,
            masters=masters,
            mirror=self.mirror,
            settings=self._settings,
            role_states=AllRoleStates(),
            reservations=Reservations(self.mirror, self._settings.namespace),
            status_writer=StatusWriter(self._client, self.mirror, self._settings.identity),
        )
        return DatasetReconciler(backend, work_of(self._client, self.mirror, masters), _log)

    def _on_change(self, kind: str, before: Content | None, now: Content | None) -> None:
        if self._queue is None:
            return
        try:
            self._queue.enqueue(affected_datasets(self.mirror, kind, before, now))
        except Exception:
            # Whatever an object holds: the watches go on, and passes come by themselves.
            _log.exception("operator/%s: a change of a %s is not understood", self._settings.identity, kind)


async def run_operator(settings: OperatorSettings, kubeconfig: str | None) -> int:
    """The whole life of the process; its exit code."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with KubeClient(await configuration(kubeconfig)) as client:
        operator = Operator(client, settings, await digest_key(client, settings.namespace))
        probes = await serve_probes(settings.health_port, operator.informers.ready.is_set, operator.metrics)
        try:
            async with exported("headrace-operator", operator.metrics):
                await operator.run(ended)
        finally:
            await probes.close()
    return 0


async def digest_key(client: KubeClient, namespace: str) -> bytes:
    """The key of digests, the same for all operators of the cluster: put by the first into the chart's empty Secret."""
    while True:
        found = await client.get("Secret", namespace, KEY_SECRET)
        if key := ((found or {}).get("data") or {}).get("key"):
            return base64.b64decode(key)
        data = {"data": {"key": base64.b64encode(secrets.token_bytes(32)).decode()}}
        # Another operator may be faster: then that one's is the key.
        with contextlib.suppress(ConflictError):
            if found is None:
                metadata = {"name": KEY_SECRET, "namespace": namespace}
                await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **data})
            else:
                version = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}}
                await client.patch("Secret", namespace, KEY_SECRET, version | data)

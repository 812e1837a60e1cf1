"""Reads the counters behind a job, and notes with the job what its data cost so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.jobs.data_cost import Counters, Metering, Reading, mount_counters, values_of, worker_counters
from headrace.jobs.views import JobPhase
from headrace.kube.pod_metrics import Scraper
from headrace.kubeflow.cluster_api import Cluster
from headrace.kubeflow.meters import metering_of, text_of
from headrace.kubeflow.names import DATA_COST_ANNOTATION, Content
from headrace.kubeflow.phases import phase_of
from headrace.kubeflow.sources import METRICS_PORT, Source, claims_of_job, is_shared, sources_of

_EVERY = timedelta(seconds=30)
_FRESH = timedelta(seconds=5)
_AT_ONCE = 16


@dataclass(slots=True)
class Metered:
    """The metering of many jobs. Used from one event loop."""

    cluster: Cluster
    scraper: Scraper
    clock: Callable[[], datetime]
    _last: dict[str, tuple[datetime, frozenset[str]]] = field(default_factory=dict)
    """When each job was read last, and where its pods were then."""
    _pods: dict[str, tuple[datetime, list[Content]]] = field(default_factory=dict)

    async def measure(self, job: Content, pods: Sequence[Content]) -> None:
        """Brings the job's note up to date, if it is time for that. Counters that cannot be read stay as they were."""
        metering, phase = metering_of(job), phase_of(job)
        if metering.is_final or not claims_of_job(job) or phase not in _METERED:
            return
        if not phase.has_ended and not self._is_time(job, pods):
            return
        read = await self._read(job, pods, metering)
        after = read.closed() if phase.has_ended else read
        if after != metering:
            await self._write(job, after)
        if phase.has_ended:
            self._last.pop(str(job["metadata"].get("uid")), None)

    def _is_time(self, job: Content, pods: Sequence[Content]) -> bool:
        """At once when a pod got a node: what its mount counted until then is not the job's."""
        uid, now = str(job["metadata"].get("uid")), self.clock()
        nodes = frozenset(str((pod.get("spec") or {}).get("nodeName") or "") for pod in pods) - {""}
        last = self._last.get(uid)
        if not nodes or (last and nodes <= last[1] and now - last[0] < _EVERY):
            return False
        self._last[uid] = now, nodes
        return True

    async def _read(self, job: Content, pods: Sequence[Content], metering: Metering) -> Metering:
        namespace = job["metadata"]["namespace"]
        others = await self._pods_of(namespace)
        gate = asyncio.Semaphore(_AT_ONCE)
        readings = await asyncio.gather(
            *(self._reading(each, gate) for each in sources_of(job, pods, others))
        )
        known = [each for each in readings if each is not None]
        return metering.read(known, is_shared=is_shared(job, others))

    async def _reading(self, source: Source, gate: asyncio.Semaphore) -> Reading | None:
        async with gate:
            text = await self.scraper.text(source.pod, METRICS_PORT)
        if text is None:
            return None
        values = values_of(text)
        if values is None:
            return None
        counters = mount_counters(values) if source.is_mount else _of_worker(values)
        return Reading(source.name, source.life, counters, source.began_before)

    async def _pods_of(self, namespace: str) -> list[Content]:
        """All pods of a namespace, asked for once for all its jobs."""
        known, now = self._pods.get(namespace), self.clock()
        if known is None or now - known[0] > _FRESH:
            known = now, await self.cluster.list("Pod", namespace)
            self._pods = {key: each for key, each in self._pods.items() if now - each[0] < _FRESH}
            self._pods[namespace] = known
        return known[1]

    async def _write(self, job: Content, metering: Metering) -> None:
        metadata = job["metadata"]
        body = {
            "metadata": {"uid": metadata["uid"], "annotations": {DATA_COST_ANNOTATION: text_of(metering)}}
        }
        await self.cluster.patch(job["kind"], metadata["namespace"], metadata["name"], body)


def _of_worker(values: Mapping[str, float]) -> Counters:
    loaded = values.get("headrace_origin_loaded_bytes_total", 0.0)
    return worker_counters(values.get("headrace_origin_bytes_total", 0.0), loaded)


_METERED = (JobPhase.PENDING, JobPhase.RUNNING, JobPhase.SUCCEEDED, JobPhase.FAILED)

"""Reconciles one job: looks at it, and does what `keeper_plan` decides. For the keeper, or who waits where none
runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from headrace.api.times import format_time
from headrace.errors import HeadraceError, MissingFileError
from headrace.jobs.objects import start_patch, warm_percent
from headrace.jobs.spec import CleanPolicy
from headrace.jobs.warmth import Warmth, warmths_of
from headrace.kube.faults import ConflictError
from headrace.kube.pod_metrics import Scraper
from headrace.kubeflow.cluster_api import Cluster
from headrace.kubeflow.keeper_plan import (
    DeleteJob,
    DeletePod,
    Fail,
    HoldBack,
    KeepLog,
    Plan,
    Start,
    Step,
    TakeOverCleaning,
    decide,
)
from headrace.kubeflow.kept_logs import limit_bytes
from headrace.kubeflow.log_keeping import keep_log
from headrace.kubeflow.metering import Metered
from headrace.kubeflow.names import CLEANING_ANNOTATION, KEPT_ANNOTATION, Content
from headrace.kubeflow.notes import Note, note_of, text_of
from headrace.kubeflow.phases import is_suspended
from headrace.kubeflow.run_policies import clean_policy_patch
from headrace.kubeflow.sources import claims_of_job

_log = logging.getLogger("headrace.jobs")
_LOGS_AT_ONCE = 8
_SOON_S = 2.0


def _now() -> datetime:
    return datetime.now(UTC)


class JobReconciler:
    """Reconciles any number of jobs, one pass at a time each. Used from one event loop."""

    def __init__(self, cluster: Cluster, scraper: Scraper, clock: Callable[[], datetime] = _now) -> None:
        self._cluster = cluster
        self._clock = clock
        self._metered = Metered(cluster, scraper, clock)
        self._logs = asyncio.Semaphore(_LOGS_AT_ONCE)

    async def reconcile(
        self, job: Content, pods: Sequence[Content], gone: Iterable[Content] = ()
    ) -> float | None:
        """Does what is to be done for a job now; when to reconcile again at the latest. `pods` are its own."""
        plan = decide(job, pods, gone, await self.warmth(job), self._clock())
        # Neither waits for the other: pods that are leaving take their logs with them, and the mounts that counted.
        note, _ = await asyncio.gather(self._keep_logs(job, pods, plan), self._measure(job, pods))
        try:
            if note != note_of(job):
                await self._patch(job, {"metadata": {"annotations": {KEPT_ANNOTATION: text_of(note)}}})
            for step in plan.steps:
                await self._take(job, step)
        except (ConflictError, MissingFileError):
            # It is another job by now, or none.
            return _SOON_S
        return plan.requeue_after_s

    async def _measure(self, job: Content, pods: Sequence[Content]) -> None:
        try:
            await self._metered.measure(job, pods)
        except HeadraceError as error:
            _log.warning("%s: what its data costs is not known: %s", _title(job), error)

    async def start(self, job: Content) -> None:
        """Lets a job go that was held back, whatever it waited for."""
        await self._take(job, Start())

    async def warmth(self, job: Content) -> list[Warmth]:
        """How warm the data is that a job waits for; nothing for one that waits for none."""
        if not warm_percent(job) or not is_suspended(job):
            return []
        namespace = job["metadata"]["namespace"]
        found = [await self._cluster.get("Dataset", namespace, claim) for claim in claims_of_job(job)]
        return warmths_of(found)

    async def _keep_logs(self, job: Content, pods: Sequence[Content], plan: Plan) -> Note:
        wanted = [step.pod for step in plan.steps if isinstance(step, KeepLog)]
        kept = await asyncio.gather(*(self._keep_log(job, pod, plan.note, len(pods)) for pod in wanted))
        note = plan.note
        for pod, is_kept in zip(wanted, kept, strict=True):
            if is_kept:
                note = note.with_log(str(pod["metadata"].get("uid") or ""))
        return note

    async def _keep_log(self, job: Content, pod: Content, note: Note, pods: int) -> bool:
        known = note.of(str(pod["metadata"].get("uid") or ""))
        limit = limit_bytes(is_chief=bool(known and known.view.is_chief), pods=pods)
        async with self._logs:
            try:
                return await keep_log(self._cluster, job, pod, limit_bytes=limit)
            except HeadraceError as error:
                _log.warning("%s: the log of %s is not kept: %s", _title(job), pod["metadata"]["name"], error)
                return False

    async def _take(self, job: Content, step: Step) -> None:
        metadata = job["metadata"]
        match step:
            case Start():
                await self._patch(job, start_patch(job))
            case TakeOverCleaning():
                await self._patch(job, _cleaned_by_keeper(job))
            case HoldBack():
                await self._patch(job, {"spec": {"runPolicy": {"suspend": True}}})
            case Fail(message):
                await self._patch(job, _failure(job, message, self._clock()), "status")
            case DeletePod(name, uid):
                await self._cluster.delete("Pod", metadata["namespace"], name, uid=uid)
            case DeleteJob():
                await self._cluster.delete(
                    job["kind"], metadata["namespace"], metadata["name"], uid=metadata["uid"]
                )
            case KeepLog():
                return
        _log.info("%s: %s", _title(job), _WORDS[type(step)])

    async def _patch(self, job: Content, body: Content, subresource: str = "") -> None:
        metadata = job["metadata"]
        whole = body | {"metadata": {**body.get("metadata", {}), "uid": metadata["uid"]}}
        await self._cluster.patch(job["kind"], metadata["namespace"], metadata["name"], whole, subresource)


def _cleaned_by_keeper(job: Content) -> Content:
    return {
        "metadata": {"annotations": {CLEANING_ANNOTATION: CleanPolicy.ALL.value}},
        "spec": clean_policy_patch(job, CleanPolicy.RUNNING.value),
    }


_WORDS = {
    Start: "is started",
    TakeOverCleaning: "its pods are cleaned up by the keeper, once their logs are kept",
    HoldBack: "ends what still runs of it",
    Fail: "has failed",
    DeletePod: "a pod that has ended is deleted",
    DeleteJob: "is deleted, since its time is over",
}


def _failure(job: Content, message: str, now: datetime) -> Content:
    """The end, in the words of an operator. A merge replaces the whole list of conditions."""
    at = format_time(now.replace(microsecond=0))
    status = job.get("status") or {}
    others = [
        each for each in status.get("conditions") or () if each.get("type") not in ("Failed", "Running")
    ]
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": "StartingTimeout",
        "message": message,
        "lastTransitionTime": at,
        "lastUpdateTime": at,
    }
    return {"status": {"completionTime": at, "conditions": [*others, failed]}}


def _title(job: Content) -> str:
    return f"{job['kind'].lower()}/{job['metadata'].get('namespace')}/{job['metadata']['name']}"

"""A job is looked at again and again, until nothing holds its volumes and its logs are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from job_cluster import JobCluster
from job_objects import (
    BEGAN,
    Content,
    condition,
    failed,
    launcher,
    mpijob,
    of_training_operator,
    succeeded,
    worker,
)

from headrace.errors import EngineError
from headrace.jobs.naming import HELD_QUEUE, QUEUE_LABEL, TTL, WAIT_WARM
from headrace.kube.pod_logs import LogQuery
from headrace.kubeflow.job_reconciler import JobReconciler
from headrace.kubeflow.job_views import pods_of, view_of
from headrace.kubeflow.kept_logs import kept_logs, shown
from headrace.kubeflow.notes import note_of

KEY = ("MPIJob", "default", "resnet")
LOG = [b"2026-01-31T09:30:05.1Z first\n", b"2026-01-31T09:30:06.2Z second\n"]


class NoMetrics:
    async def text(self, pod: Content, port: int) -> str | None:
        return None


class Desk:
    """A cluster with one job, and who tends it."""

    def __init__(self, job: Content, *pods: Content) -> None:
        self.cluster = JobCluster()
        self.cluster.add_node("node-1", {})
        self.cluster.put(job, *pods)
        self.now = BEGAN + timedelta(seconds=61)
        self.tender = JobReconciler(self.cluster, NoMetrics(), self._clock)

    def _clock(self) -> datetime:
        return self.now

    @property
    def job(self) -> Content:
        return self.cluster.objects[KEY]

    @property
    def pods(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.cluster.of("Pod"))

    def reconcile(self, *gone: Content) -> float | None:
        pods = pods_of(self.job, self.cluster.of("Pod"))
        return asyncio.run(self.tender.reconcile(self.job, pods, gone))

    def settle(self) -> None:
        """Looks until there is nothing more to do."""
        for _ in range(10):
            if KEY not in self.cluster.objects or self.reconcile() is None:
                return
        raise AssertionError("it is never done")

    def kept(self) -> dict[str, list[bytes]]:
        found = kept_logs(self.job, self.cluster.of("ConfigMap"))
        return {each.pod: shown(each.lines, since=None, tail=None, timestamps=False) for each in found}


def dataset(percent: str) -> Content:
    return {
        "kind": "Dataset",
        "metadata": {"name": "imagenet", "namespace": "default"},
        "status": {"cacheStates": {"cachedPercentage": percent}},
    }


def test_at_the_end_logs_are_kept_and_claims_are_free() -> None:
    desk = Desk(succeeded(), launcher("Succeeded", claims=("imagenet",)), worker(0, "Succeeded"))
    desk.cluster.logs = dict.fromkeys(desk.pods, LOG)
    desk.settle()
    assert desk.pods == []
    assert desk.kept() == {
        "resnet-launcher-x7k2p": [b"first\n", b"second\n"],
        "resnet-worker-0": [b"first\n", b"second\n"],
    }
    assert [each.name for each in view_of(desk.job, []).instances] == [
        "resnet-launcher-x7k2p",
        "resnet-worker-0",
    ]


def test_a_pod_that_never_printed_holds_nothing_up() -> None:
    desk = Desk(failed(), worker(0, "Failed"))
    desk.settle()
    assert (desk.pods, desk.kept()) == ([], {})


def test_the_pods_of_a_training_operator_go_when_their_logs_are_kept() -> None:
    desk = Desk(of_training_operator(mpijob(condition("Running", 5))), launcher(), worker(0))
    desk.reconcile()
    assert desk.job["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
    ended = succeeded()
    desk.job["status"] = ended["status"]
    desk.cluster.put(launcher("Succeeded"), worker(0, "Succeeded"))
    desk.cluster.logs = dict.fromkeys(desk.pods, LOG)
    desk.settle()
    assert (desk.pods, len(desk.kept())) == ([], 2)


class ReadsLogsFirst(JobCluster):
    """Tells of no pods until a log is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def log(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[bytes]:
        self.asked.set()
        async for line in super().log(namespace, pod, query):
            yield line

    async def list(self, kind: str, *args: Any, **more: Any) -> list[Content]:
        if kind == "Pod":
            async with asyncio.timeout(10):
                await self.asked.wait()
        return await super().list(kind, *args, **more)


def test_so_do_those_of_an_operator_before_it_whose_jobs_have_no_run_policy() -> None:
    job = mpijob(condition("Running", 5))
    spec = {"mpiReplicaSpecs": job["spec"]["mpiReplicaSpecs"], "cleanPodPolicy": "All"}
    desk = Desk(job | {"apiVersion": "kubeflow.org/v1", "spec": spec}, launcher(), worker(0))
    desk.reconcile()
    assert desk.job["spec"]["cleanPodPolicy"] == "Running"
    assert "runPolicy" not in desk.job["spec"]


def test_a_log_does_not_wait_for_counters_to_be_read() -> None:
    """Its pod may be gone by then."""
    pod = worker(0, "Succeeded", leaving=True)
    desk = Desk(succeeded(), pod)
    desk.cluster = ReadsLogsFirst()
    desk.cluster.put(succeeded(), pod)
    desk.cluster.logs = dict.fromkeys(desk.pods, LOG)
    desk.tender = JobReconciler(desk.cluster, NoMetrics(), lambda: desk.now)
    desk.reconcile()
    assert list(desk.kept()) == ["resnet-worker-0"]


def test_a_log_whose_node_is_away_is_tried_again_and_then_given_up() -> None:
    desk = Desk(succeeded(), worker(0, "Succeeded"))
    desk.cluster.unread = {"resnet-worker-0"}
    desk.reconcile()
    desk.reconcile()
    assert desk.pods == ["resnet-worker-0"]
    desk.now += timedelta(minutes=2)
    desk.settle()
    assert desk.pods == []


@pytest.mark.parametrize("fault", range(6))
def test_a_keeper_that_is_killed_at_any_write_leaves_work_that_the_next_one_ends(fault: int) -> None:
    desk = Desk(succeeded(), launcher("Succeeded", claims=("imagenet",)), worker(0, "Succeeded"))
    desk.cluster.logs = dict.fromkeys(desk.pods, LOG)
    desk.cluster.faults = {fault: asyncio.CancelledError()}
    try:
        desk.settle()
    except asyncio.CancelledError:
        desk.tender = JobReconciler(desk.cluster, NoMetrics(), lambda: desk.now)
        desk.settle()
    assert desk.pods == []
    assert set(desk.kept()) == {"resnet-launcher-x7k2p", "resnet-worker-0"}


def test_a_job_that_waits_for_its_data_starts_once_that_is_warm() -> None:
    desk = Desk(mpijob(suspend=True, annotations={WAIT_WARM: "90"}))
    desk.cluster.put(dataset("89.9%"))
    assert desk.reconcile() == 5
    assert desk.job["spec"]["runPolicy"]["suspend"] is True
    desk.cluster.put(dataset("90.0%"))
    desk.reconcile()
    assert desk.job["spec"]["runPolicy"]["suspend"] is False
    assert WAIT_WARM not in desk.job["metadata"]["annotations"]


def test_with_a_queue_it_enters_that_once_it_is_warm() -> None:
    desk = Desk(mpijob(suspend=True, annotations={WAIT_WARM: "90", HELD_QUEUE: "team"}))
    desk.cluster.put(dataset("100.0%"))
    desk.reconcile()
    assert desk.job["spec"]["runPolicy"]["suspend"] is True
    assert desk.job["metadata"]["labels"][QUEUE_LABEL] == "team"


def test_an_ended_job_goes_with_all_that_was_kept_of_it() -> None:
    desk = Desk(succeeded(annotations={TTL: "5"}), worker(0, "Succeeded"))
    desk.cluster.logs = dict.fromkeys(desk.pods, LOG)
    desk.now += timedelta(seconds=5)
    desk.settle()
    assert KEY not in desk.cluster.objects
    assert desk.cluster.of("ConfigMap") == []


def test_a_worker_that_is_gone_is_told_of_as_it_was_last() -> None:
    desk = Desk(mpijob(condition("Running", 7)), launcher())
    desk.reconcile(worker(1, "Failed"))
    assert [each.view.name for each in note_of(desk.job).instances] == ["resnet-worker-1"]


def test_a_job_of_the_same_name_that_came_meanwhile_is_left_alone() -> None:
    desk = Desk(succeeded(), worker(0, "Succeeded"))
    seen: Any = dict(desk.job)
    desk.cluster.put(mpijob() | {"metadata": mpijob()["metadata"] | {"uid": "another"}})
    asyncio.run(desk.tender.reconcile(seen, [], [worker(1, "Failed")]))
    assert note_of(desk.job).instances == ()


def test_a_fault_of_the_api_server_is_raised_for_the_look_to_be_repeated() -> None:
    desk = Desk(succeeded(), worker(0, "Succeeded"))
    desk.cluster.faults = {1: EngineError.of("etcd is away")}
    with pytest.raises(EngineError):
        desk.reconcile()

"""The keeper as a whole over a cluster in memory; the chart gives it the rights that it uses, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from charts import named, render
from job_cluster import JobCluster
from job_objects import BEGAN, Content, condition, launcher, mpijob, succeeded, worker

from headrace.jobs.naming import STARTING_TIMEOUT, TTL, WAIT_WARM
from headrace.kube.resources import RESOURCES
from headrace.kubeflow.informers import Informers
from headrace.kubeflow.job_reconciler import JobReconciler
from headrace.kubeflow.keeper import Keeper, QueuedJobs

Right = tuple[str, str, str]
LINE = [b"2026-01-31T09:30:05.1Z first\n"]


class NoMetrics:
    async def text(self, pod: Content, port: int) -> str | None:
        return None


class LiveCluster(JobCluster):
    """One whose changes can be followed, and whose calls are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[Right] = set()

    async def watch(
        self,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        fields: str = "",
    ) -> AsyncIterator[tuple[str, Content]]:
        self.note(kind, "watch")
        for content in await self.list(kind, namespace, labels, fields):
            yield "SYNC", content
        yield "SYNCED", {}
        seen = len(self.changes)
        while True:
            await asyncio.sleep(0)
            for what, content in [(each[1], each[2]) for each in self.changes[seen:] if each[0] == kind]:
                yield what, content
            seen = len(self.changes)

    def note(self, kind: str, verb: str, part: str = "") -> None:
        resource = RESOURCES[kind]
        self.asked.add((resource.group, f"{resource.plural}/{part}" if part else resource.plural, verb))

    async def get(self, kind: str, namespace: str | None, name: str) -> Content | None:
        self.note(kind, "get")
        return await super().get(kind, namespace, name)

    async def list(self, kind: str, *words: Any, **more: Any) -> list[Content]:
        self.note(kind, "list")
        return await super().list(kind, *words, **more)

    async def create(self, content: Content, *, trial: bool = False) -> Content:
        self.note(content["kind"], "create")
        return await super().create(content, trial=trial)

    async def patch(self, kind: str, *words: Any, **more: Any) -> Content:
        self.note(kind, "patch", words[3] if len(words) > 3 else "")
        return await super().patch(kind, *words, **more)

    async def delete(self, kind: str, *words: Any, **more: Any) -> None:
        self.note(kind, "delete")
        await super().delete(kind, *words, **more)

    async def log(self, namespace: str, pod: str, query: Any) -> AsyncIterator[bytes]:
        self.note("Pod", "get", "log")
        async for line in super().log(namespace, pod, query):
            yield line


@pytest.fixture
def cluster() -> LiveCluster:
    found = LiveCluster()
    found.add_node("node-1", {})
    return found


async def until(is_so: Any) -> None:
    async with asyncio.timeout(120):
        while not is_so():
            await asyncio.sleep(0.01)


def keep(cluster: LiveCluster, story: Any) -> None:
    """Runs the keeper while a story is told."""

    async def together() -> None:
        keeper = Keeper(cluster, JobReconciler(cluster, NoMetrics()))
        tasks = [asyncio.ensure_future(each) for each in (keeper.informers.run(), keeper.act())]
        try:
            await story()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(together())


def pods(cluster: JobCluster) -> list[str]:
    return sorted(each["metadata"]["name"] for each in cluster.of("Pod"))


def test_a_job_that_ends_lets_go_of_its_claims(cluster: LiveCluster) -> None:
    cluster.put(mpijob(condition("Running", 7)), launcher(claims=("imagenet",)), worker(0))
    cluster.logs = dict.fromkeys(pods(cluster), LINE)

    async def story() -> None:
        await asyncio.sleep(0.05)
        job = cluster.objects["MPIJob", "default", "resnet"]
        cluster.put(launcher("Succeeded", claims=("imagenet",)), worker(0, "Succeeded"))
        cluster.put(succeeded() | {"metadata": job["metadata"]})
        await until(lambda: pods(cluster) == [])

    keep(cluster, story)
    assert len(cluster.of("ConfigMap")) == 2


def test_jobs_that_others_made_are_left_alone(cluster: LiveCluster) -> None:
    foreign = succeeded()
    del foreign["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    cluster.put(foreign, worker(0, "Succeeded"))

    async def look() -> None:
        informers = Informers(cluster, lambda _: None)
        reconciler = QueuedJobs(cluster, informers, JobReconciler(cluster, NoMetrics()))
        assert (await reconciler.reconcile("default", "mpijob/resnet")).requeue_after_s is None

    asyncio.run(look())
    assert cluster.writes == []


def test_a_kind_that_comes_later_is_followed_then(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.kubeflow.informers._DISCOVERY_POLL_S", 0.01)
    cluster.served = {}

    async def story() -> None:
        await asyncio.sleep(0.03)
        cluster.served = {"kubeflow.org": {"MPIJob": "v2beta1"}}
        cluster.put(succeeded(), worker(0, "Succeeded"))
        await until(lambda: pods(cluster) == [])

    keep(cluster, story)


@pytest.mark.slow  # the first run on a machine builds helm
@pytest.mark.timeout(1200)
def test_the_chart_gives_what_the_keeper_asks_for_and_nothing_else(cluster: LiveCluster) -> None:
    dataset = {
        "kind": "Dataset",
        "metadata": {"name": "imagenet", "namespace": "default"},
        "status": {"cacheStates": {"cachedPercentage": "100%"}},
    }
    late = mpijob(
        name="late",
        startTime=BEGAN.isoformat().replace("+00:00", "Z"),
        annotations={STARTING_TIMEOUT: "1"},
    )
    old = succeeded(name="old", annotations={TTL: "0"})
    held = mpijob(name="held", suspend=True, annotations={WAIT_WARM: "50"})
    cluster.put(dataset, late, old, held, succeeded(), worker(0, "Succeeded"))
    cluster.logs = dict.fromkeys(pods(cluster), LINE)

    def is_done() -> bool:
        jobs = {each["metadata"]["name"]: each for each in cluster.of("MPIJob")}
        states = {each["type"] for each in jobs["late"]["status"]["conditions"]}
        is_held = jobs["held"]["spec"]["runPolicy"]["suspend"]
        return "old" not in jobs and "Failed" in states and not is_held and pods(cluster) == []

    keep(cluster, lambda: until(is_done))
    alike = {"mpijobs", "pytorchjobs", "tfjobs"}
    asked = {
        (group, name.replace("mpijobs", kind), verb)
        for group, name, verb in cluster.asked
        for kind in (alike if name.startswith("mpijobs") else {""})
    }
    given = {
        (group, resource, verb)
        for rule in named(render(), "ClusterRole", "headrace-jobs")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert asked - given == set(), "these calls are refused"
    assert given - asked == set(), "these rights are of no use"

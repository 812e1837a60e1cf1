"""Whose lines are shown, and from where: of pods that are there, of those that are gone, of all at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from job_cluster import JobCluster
from job_objects import Content, condition, failed, launcher, mpijob, pod, succeeded, worker

from headrace.errors import ConfigError, MissingFileError
from headrace.jobs.backend import LogWish
from headrace.kubeflow.job_reader import Jobs
from headrace.kubeflow.kept_logs import config_maps
from headrace.kubeflow.log_reading import Logs
from headrace.kubeflow.names import KEPT_ANNOTATION
from headrace.kubeflow.notes import KeptInstance, Note, text_of
from headrace.kubeflow.pod_states import instance_of

LINES = [b"2026-01-31T09:30:05.1Z first\n", b"2026-01-31T09:30:06.2Z second\n"]
RUNNING = mpijob(condition("Running", 7))


def read(cluster: JobCluster, **wish: Any) -> list[bytes]:
    jobs = Jobs(cluster)

    async def lines() -> list[bytes]:
        job = await jobs.view(await jobs.one("default", "resnet", None), events=False)
        return [line async for line in Logs(jobs, job, LogWish(**wish)).lines()]

    return asyncio.run(lines())


def cluster_of(job: Content, *pods: Content, printed: bool = True) -> JobCluster:
    cluster = JobCluster()
    cluster.put(job, *pods)
    cluster.logs = {each["metadata"]["name"]: LINES for each in pods} if printed else {}
    return cluster


def gone(job: Content, *pods: Content) -> JobCluster:
    """A job whose pods are gone, and their logs kept."""
    kept = tuple(KeptInstance(instance_of(each), each["metadata"]["uid"], has_log=True) for each in pods)
    job["metadata"]["annotations"][KEPT_ANNOTATION] = text_of(Note(kept))
    cluster = JobCluster()
    parts = [part for each in pods for part in config_maps(job, each, "mpi", b"".join(LINES))]
    cluster.put(job, *parts)
    return cluster


def test_without_a_name_the_chief_is_meant() -> None:
    cluster = cluster_of(RUNNING, launcher(), worker(0), worker(1))
    cluster.logs["resnet-worker-0"] = [b"2026-01-31T09:30:05.1Z other\n"]
    assert read(cluster) == [b"first\n", b"second\n"]
    assert read(cluster, instance="resnet-worker-0") == [b"other\n"]
    assert read(cluster, tail=1, timestamps=True) == LINES[1:]


def test_logs_of_pods_that_are_gone_are_those_that_were_kept() -> None:
    cluster = gone(succeeded(), launcher("Succeeded"), worker(0, "Succeeded"))
    assert read(cluster) == [b"first\n", b"second\n"]
    assert read(cluster, instance="resnet-worker-0", tail=1) == [b"second\n"]
    assert read(cluster, follow=True) == [b"first\n", b"second\n"]


def test_of_the_kept_logs_of_a_pod_that_of_the_job_is_meant_and_none_of_its_operator() -> None:
    job, gone_worker = failed(), worker(0, "Failed")
    cluster = gone(job, gone_worker)
    cluster.put(*config_maps(job, gone_worker, "init-mpi", b"2026-01-31T09:30:01.1Z found the master\n"))
    assert read(cluster, instance="resnet-worker-0") == [b"first\n", b"second\n"]
    assert read(cluster, instance="resnet-worker-0", container="init-mpi") == [b"found the master\n"]


def test_lines_of_all_stand_behind_the_names_of_their_instances() -> None:
    cluster = gone(failed(), launcher("Failed"))
    cluster.put(worker(1))
    cluster.logs = {"resnet-worker-1": LINES[:1]}
    expected = [
        b"[resnet-launcher-x7k2p] first\n",
        b"[resnet-launcher-x7k2p] second\n",
        b"[resnet-worker-1] first\n",
    ]
    assert read(cluster, all_instances=True) == expected
    assert sorted(read(cluster, all_instances=True, follow=True)) == expected


def test_a_log_that_nobody_kept_says_who_would_have() -> None:
    cluster = gone(succeeded(), launcher("Succeeded"))
    for key in [key for key in cluster.objects if key[0] == "ConfigMap"]:
        del cluster.objects[key]
    with pytest.raises(MissingFileError, match="gone with its pod"):
        read(cluster)


def test_a_job_without_pods_says_why_it_has_no_log() -> None:
    with pytest.raises(ConfigError, match="has not made them"):
        read(cluster_of(mpijob()))


def test_a_pod_that_has_not_begun_says_what_it_waits_for() -> None:
    image = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    cluster = cluster_of(mpijob(), launcher("Pending", state=image), printed=False)
    with pytest.raises(ConfigError, match="its image cannot be pulled"):
        read(cluster)


def test_an_instance_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ConfigError) as raised:
        read(cluster_of(RUNNING, launcher(), worker(0)), instance="resnet-worker-7")
    assert raised.value.hint == "its instances: resnet-launcher-x7k2p, resnet-worker-0"


def test_who_follows_goes_on_with_the_next_try() -> None:
    first = pod("resnet-launcher-aaaaa", "launcher", "Failed", created=1)
    cluster = cluster_of(RUNNING, first)
    cluster.logs = {"resnet-launcher-aaaaa": LINES[:1], "resnet-launcher-bbbbb": LINES[1:]}
    second = pod("resnet-launcher-bbbbb", "launcher", created=30)
    reading = cluster.log

    async def log(namespace: str, name: str, query: Any) -> Any:
        async for line in reading(namespace, name, query):
            yield line
        cluster.put(second if name.endswith("aaaaa") else failed())

    cluster.log = log  # type: ignore[method-assign]
    assert read(cluster, follow=True) == [b"first\n", b"second\n"]

"""Training jobs on a real cluster, run by the real MPI operator: `arena` from the first word to the last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from arena_on_kubernetes import (
    GREETING,
    READ_AS_RANK,
    Arena,
    JobOperator,
    arena_on,
    bucket_for_jobs,
    operator_on,
)
from charts import Release
from datasets_on_kubernetes import Bucket, parts_of

from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.kubernetes.kubeflow_programs import MPI_OPERATOR, operator_image
from headrace.testing.kubernetes.training import JOB_IMAGE, install_operator, uninstall_operator

pytestmark = [pytest.mark.root, pytest.mark.slow]

WARM = {
    "apiVersion": "data.fluid.io/v1alpha1",
    "kind": "DataLoad",
    "metadata": {"name": "warm"},
    "spec": {"dataset": {"name": "imagenet"}},
}


def _images(folder: Path) -> tuple[Path, ...]:
    return (operator_image(MPI_OPERATOR, folder),)


@pytest.fixture(scope="module")
def operator(cluster: Cluster) -> Iterator[None]:
    with operator_on(cluster, JobOperator(_images, install_operator, uninstall_operator)):
        yield


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with bucket_for_jobs(cluster, tmp_path_factory.mktemp("s3")) as made:
        yield made


@pytest.fixture(scope="module")
def arena(release: Release, operator: None, kubernetes: Kubectl, bucket: Bucket) -> Iterator[Arena]:
    with arena_on(kubernetes, "training", bucket) as made:
        yield made


def test_a_job_from_its_first_word_to_its_last(arena: Arena, bucket: Bucket) -> None:
    """One job that is waited with, looked at, entered, read and deleted, since each start takes half a minute."""
    wait = "until [ -e /tmp/go ]; do sleep 0.2; done"
    script = f'mpirun python3 -c "$READER"; echo all have read; {wait}'
    words = ("-e", f"GREETING={GREETING}", "-e", f"READER={READ_AS_RANK}", "--mounts-on-launcher")
    created = arena.submit("life", "--wait-warm", "100", *words, script)
    assert "mpijob.kubeflow.org/life created" in created

    held = arena.until("life", "SUSPENDED")
    assert "starts once 100 % of its data is cached" in held["reason"]
    assert arena.pods() == []
    assert "life" in arena("list")
    _check_that_a_taken_name_is_refused(arena, "life")

    arena.kubectl.apply(WARM, namespace=arena.namespace)
    running = arena.until("life", "RUNNING")
    assert [each["chief"] for each in running["instances"]] == [True, False, False]
    lines = arena("get", "life").splitlines()
    assert lines[0] == "STATUS: RUNNING"
    table = [line.split() for line in lines if line.startswith("life ")]
    assert [row[1:3] for row in table] == [["RUNNING", "MPIJOB"]] * 3
    holding = {pod["spec"]["nodeName"] for pod in parts_of(arena.kubectl, arena.namespace, "worker")}
    assert len(holding) == 2, "the dataset has two of the nodes"
    assert {each["node"] for each in running["instances"] if not each["chief"]} == holding

    arena.kubectl.wait(lambda: "all have read" in arena("logs", "life"), "the ranks to read")
    log = arena("logs", "life")
    for rank, host in enumerate(("life-worker-0", "life-worker-1")):
        assert f"rank {rank} on {host} read {bucket.digest()} {GREETING!r}" in log

    arena("attach", "life", "--", "touch", "/tmp/go")
    done = arena.run("wait", "-n", arena.namespace, "life", "--timeout", "300s")
    assert done.returncode == 0, done.stderr

    # The launcher's pod held the volume: it goes by itself, and its log stays.
    arena.kubectl.wait(lambda: arena.holders() == [], "pods to let go of the claim")
    assert arena("logs", "life") == log
    assert arena("logs", "life", "--tail", "1") == "all have read\n"
    ended = arena.until("life", "SUCCEEDED")
    assert ended["instances"][0]["status"] == "SUCCEEDED"
    size = sum(path.stat().st_size for path in bucket.folder.rglob("*") if path.is_file())
    cost = ended["dataCost"]
    assert cost["originBytes"] == 0, "it was warm"
    assert cost["localBytes"] + cost["peerBytes"] >= size

    deleted = arena.delete("life")
    assert 'mpijob.kubeflow.org "life" deleted' in deleted
    assert 'configmap "life-mpijob" deleted' in deleted


def _check_that_a_taken_name_is_refused(arena: Arena, name: str) -> None:
    """By a clear message, and without touching the job that has it."""
    before = arena.kubectl.get("-n", arena.namespace, "mpijob,configmap", "-l", f"release={name}")
    words = ("--name", name, "--image", JOB_IMAGE, "--workers=1", "true")
    done = arena.run("submit", "mpi", "-n", arena.namespace, *words)
    assert done.returncode == 1
    assert f"the job {name} is already exist, please delete it first" in done.stderr
    assert f"arena delete {name} --type mpijob -n {arena.namespace}" in done.stderr
    after = arena.kubectl.get("-n", arena.namespace, "mpijob,configmap", "-l", f"release={name}")
    identities = [
        [
            (each["kind"], each["metadata"]["uid"], each.get("spec"), each.get("data"))
            for each in seen["items"]
        ]
        for seen in (before, after)
    ]
    assert len(identities[0]) == 2
    assert identities[0] == identities[1]


def test_a_job_whose_worker_is_killed_fails_and_says_so(arena: Arena, cluster: Cluster) -> None:
    arena.submit("killed", "mpirun sleep 600")
    arena.until("killed", "RUNNING")
    pod = arena.kubectl.get("-n", arena.namespace, "pod", "killed-worker-1")
    container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    cluster.node(pod["spec"]["nodeName"]).run(
        *("ctr", "-n", "k8s.io", "task", "kill", "--all", "-s", "SIGKILL", container)
    )
    done = arena.run("wait", "-n", arena.namespace, "killed", "--timeout", "300s")
    assert done.returncode == 1, done.stderr
    ended = arena.until("killed", "FAILED")
    assert "killed-worker-1: it was killed (SIGKILL)" in ended["reason"]
    assert ended["exitCode"] != 0
    arena.delete("killed")


def test_a_job_that_goes_over_its_memory_fails_and_says_so(arena: Arena) -> None:
    fill = "mpirun -np 1 python3 -c 'x = bytearray(1 << 30); print(len(x))'"
    arena.submit("greedy", "--memory", "256Mi", fill)
    done = arena.run("wait", "-n", arena.namespace, "greedy", "--timeout", "300s")
    assert done.returncode == 1, done.stderr
    ended = arena.until("greedy", "FAILED")
    # Where the kernel counts memory the old way, it ends the one program and not its container.
    if "greedy-worker-0: it went over its memory limit and was killed (OOMKilled)" not in ended["reason"]:
        assert "one of its ranks was killed (SIGKILL), as for want of memory" in ended["reason"]
        assert "signal 9 (Killed)" in arena("logs", "greedy")
    arena.delete("greedy")


def test_a_job_that_cannot_begin_says_why_and_goes_when_it_is_deleted(arena: Arena) -> None:
    arena.submit("pending", "--image", "headrace/no-such-image:test", "true")
    arena.kubectl.wait(
        lambda: "ErrImageNeverPull" in arena.job("pending")["reason"], "a word about the image"
    )
    assert arena.job("pending")["status"] == "PENDING"
    arena.delete("pending")
    assert arena.holders() == []


def test_a_job_that_loses_a_node_says_which_and_lets_go_of_its_data(arena: Arena, cluster: Cluster) -> None:
    arena.submit("bereft", "mpirun sleep 600")
    nodes = {each["role"]: each["node"] for each in arena.until("bereft", "RUNNING")["instances"]}
    workers = {each["name"]: each["node"] for each in arena.job("bereft")["instances"] if not each["chief"]}
    worker, node = next(each for each in workers.items() if each[1] != nodes["launcher"])
    cluster.node(node).cut()
    try:
        words = (f"{worker}: its node {node} does not answer", f"{worker}: its node {node} is away")
        for said in words:
            arena.kubectl.wait(lambda said=said: said in arena.job("bereft")["reason"], said)
    finally:
        cluster.node(node).repair()
    done = arena.run("wait", "-n", arena.namespace, "bereft", "--timeout", "300s")
    assert done.returncode == 1, done.stderr
    assert f"{worker}: its node {node} is away" in arena.job("bereft")["reason"]
    arena.kubectl.wait(lambda: arena.holders() == [], "pods to let go of the claim")
    arena.delete("bereft")


def test_what_cannot_run_is_refused_before_anything_is_made(arena: Arena) -> None:
    before = arena.kubectl("-n", arena.namespace, "get", "mpijobs,configmaps,secrets", "-o", "name")
    base = ("submit", "mpi", "-n", arena.namespace, "--name", "refused", "--image", JOB_IMAGE, "--workers=2")
    for words, complaint in (
        (("--data", "nowhere:/data"), "neither a claim nor a dataset"),
        (("--priority", "very-high"), "PriorityClass very-high"),
        (("--queue", "team"), "Kueue is not on this cluster"),
        (("--gpus", "8"), "GPU"),
        (("--wait-warm", "50"), "there is no --data to wait for"),
    ):
        done = arena.run(*base, *words, "true")
        assert done.returncode != 0
        assert complaint in done.stderr
    assert arena.kubectl("-n", arena.namespace, "get", "mpijobs,configmaps,secrets", "-o", "name") == before


def test_the_api_server_takes_every_word_of_what_is_written(arena: Arena, tmp_path: Path) -> None:
    """Strictly: no field that the kind does not know."""
    words = ("--gpus=1", "--gang", "--priority=system-node-critical", "--mounts-on-launcher")
    assert "seen-mpi created" in arena.created_strictly("mpi", tmp_path, *words)


def test_a_dataset_goes_right_after_the_jobs_that_read_it(arena: Arena) -> None:
    """Nobody has to patch a finalizer away."""
    arena.submit("last", "--mounts-on-launcher", "--clean-task-policy", "Running", "mpirun ls /data")
    done = arena.run("wait", "-n", arena.namespace, "last", "--timeout", "300s")
    assert done.returncode == 0, done.stderr
    arena.kubectl("-n", arena.namespace, "delete", "dataset", "imagenet", "--timeout=300s", timeout_s=330)
    claims = arena.kubectl("-n", arena.namespace, "get", "pvc", "-o", "name")
    assert claims == ""
    assert "class-0" in arena("logs", "last")

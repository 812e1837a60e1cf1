"""The submissions of the seeds, word for word, as each backend would carry them out: what the cluster would be sent,
and which processes would run where on one machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from arena_seeds import SUBMITS, words_of
from job_cluster import JobCluster

from headrace.cli.arena import backend_choice
from headrace.cli.arena.main import main
from headrace.jobs.objects import recorded_spec
from headrace.jobs.spec import DataVolume, JobKind, JobSpec, RoleName
from headrace.jobs.views import NodeRoom
from headrace.kubeflow.job_backend import KubeflowBackend
from headrace.kubeflow.kubectl_exec import Place
from headrace.local.jobs.job_admission import AdmissionContext, problems
from headrace.local.jobs.job_volumes import Volume
from headrace.local.jobs.replicas import replicas_of
from headrace.local.jobs.scheduler import CandidateNode, schedule
from headrace.plan.observed import Node

CLAIMS = ("imagenet", "nfs-imagenet", "fluid-imagenet")
NODES = tuple(f"node-{number}" for number in range(1, 5))


class ClosedCluster(JobCluster):
    """As the backend leaves it at its end."""

    async def __aexit__(self, *_: object) -> None:
        return None


def thing(kind: str, name: str, **more: Any) -> dict[str, Any]:
    place = {} if kind in ("Namespace", "Node") else {"namespace": "default"}
    return {"kind": kind, "metadata": {"name": name, "labels": {}, **place}, **more}


def node(name: str) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    return thing("Node", name, status={"conditions": ready, "allocatable": {"nvidia.com/gpu": "8"}})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[JobCluster]:
    """The seeds' own: four nodes with eight GPUs, and the claims that they name."""
    known = ClosedCluster()
    known.put(
        thing("Namespace", "default"),
        *map(node, NODES),
        *(thing("PersistentVolumeClaim", name, status={"phase": "Bound"}) for name in CLAIMS),
    )
    known.objects["Namespace", "", "default"] = thing("Namespace", "default")
    loop = asyncio.new_event_loop()
    backend = KubeflowBackend(known, loop, Place("default", "", "", "", ""))  # type: ignore[arg-type]
    monkeypatch.setitem(backend_choice.OPENERS, "kubernetes", lambda _environment, _kubeconfig: backend)
    monkeypatch.setenv("HEADRACE_JOBS_BACKEND", "kubernetes")
    yield known
    backend.close()


def dry_run(seed: str, capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], str]:
    """The objects that the line would make, and what is said about them."""
    words = words_of(SUBMITS[seed])
    assert main([*words[:2], "--dry-run", "-o", "json", *words[2:]]) == 0
    out, err = capsys.readouterr()
    return json.loads(out)["items"], err


def workers_of(seed: str) -> int:
    return 1 if "1x8" in seed else 4


@pytest.mark.parametrize("seed", SUBMITS)
def test_the_cluster_would_be_sent_just_what_the_line_says(
    seed: str, cluster: JobCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    (job, record), said = dry_run(seed, capsys)
    assert said == ""
    assert cluster.writes == []
    assert (record["kind"], record["metadata"]["name"]) == ("ConfigMap", f"{job['metadata']['name']}-mpijob")
    spec = job["spec"]
    assert (job["apiVersion"], spec["slotsPerWorker"]) == ("kubeflow.org/v2beta1", 8)
    replicas = spec["mpiReplicaSpecs"]
    assert (replicas["Launcher"]["replicas"], replicas["Worker"]["replicas"]) == (1, workers_of(seed))
    pods = {role: replicas[role]["template"]["spec"] for role in ("Launcher", "Worker")}
    (launcher,), (worker,) = pods["Launcher"]["containers"], pods["Worker"]["containers"]
    assert launcher["command"] == ["./launch-example.sh", str(workers_of(seed)), "8"]
    assert worker["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    for container in (launcher, worker):
        line = " ".join(words_of(SUBMITS[seed]))
        assert f"--image={container['image']} " in line
        assert f"--working-dir={container['workingDir']} " in line
        told = {each["name"]: each.get("value") for each in container["env"]}
        for name in ("DATA_DIR", "num_batch", "datasets_num_private_threads"):
            assert f"-e {name}={told[name]} " in line
    volumes = {each["name"]: each for each in pods["Worker"]["volumes"]}
    mounted = {each["mountPath"]: volumes[each["name"]] for each in worker["volumeMounts"]}
    if seed == "004":
        assert mounted["/data/imagenet"]["hostPath"] == {"path": "/mnt/jfs/test"}
    else:
        claim = mounted["/data"]["persistentVolumeClaim"]["claimName"]
        assert f"--data {claim}:/data " in line


@pytest.mark.parametrize("seed", SUBMITS)
def test_one_machine_would_run_just_what_the_line_says(
    seed: str, cluster: JobCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (_, record), _ = dry_run(seed, capsys)
    spec = recorded_spec(record)
    assert spec is not None
    sites = [CandidateNode(Node(name)) for name in NODES]
    replicas = replicas_of(spec, "0123456789abcdef", 1)
    placed = schedule(spec, replicas, sites)
    assert placed.problem == ""
    workers = [each for each in replicas if each.role is RoleName.WORKER]
    assert [each.name for each in workers] == [f"{spec.name}-worker-{n}" for n in range(workers_of(seed))]
    assert [placed.nodes[each.name] for each in workers] == list(NODES[: workers_of(seed)])
    assert spec.slots_per_worker == 8
    lacking = {f"there is no working folder {spec.working_dir} on this machine: make it, or name another one"}
    if seed == "004":
        lacking |= {"there is no folder /mnt/jfs/test on this machine"}
    assert set(problems(spec, machine(spec, sites, tmp_path))) == lacking


def machine(spec: JobSpec, sites: list[CandidateNode], folder: Path) -> AdmissionContext:
    """Four virtual nodes with Open MPI and the line's data, and none of the image's folders."""
    for name in ("mpirun", "orted"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return AdmissionContext(
        taken=frozenset[JobKind](),
        volumes=tuple(Volume(DataVolume(claim=each.claim, path=each.path)) for each in spec.data),
        sites=sites,
        rooms=[NodeRoom(name, 0, 0, 0) for name in NODES],
        state_folder=Path("/var/lib/headrace/local"),
        search_path=str(folder),
        is_root=True,
    )


def test_a_namespace_that_is_not_there_is_told_from_one_without_jobs(
    cluster: JobCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "-n", "default"]) == 0
    assert main(["list", "-n", "defualt"]) == 1
    assert "there is no namespace defualt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("labels", "role"),
    [
        ({}, "<none>"),
        ({"node-role.kubernetes.io/control-plane": ""}, "control-plane"),
        ({"node-role.kubernetes.io/gpu": "", "kubernetes.io/role": "worker"}, "gpu,worker"),
    ],
)
def test_the_roles_of_a_node_are_those_that_arena_shows(
    cluster: JobCluster, capsys: pytest.CaptureFixture[str], labels: dict[str, str], role: str
) -> None:
    other = node("node-x")
    cluster.put(other | {"metadata": other["metadata"] | {"labels": labels}})
    assert main(["top", "node", "node-x"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[2] == role

"""`arena submit` on a backend in memory: its words become requests, and wrong ones create nothing."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import arena_seeds
import pytest
from arena_seeds import words_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_jobs import MemoryJobBackend

from headrace.cli import main as headrace
from headrace.cli.arena.main import main
from headrace.jobs.objects import job_object
from headrace.jobs.spec import CleanPolicy, HostFolder, RoleName
from headrace.jobs.views import NodeRoom


def submitted(jobs: MemoryJobBackend, *words: str) -> object:
    assert main(["submit", "mpi", "--name", "a", "--image", "i", *words]) == 0
    return jobs.submitted[-1]


@pytest.mark.parametrize("seed", arena_seeds.SUBMITS)
def test_each_submission_of_the_seeds_is_taken_as_it_is(
    seed: str, jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words_of(arena_seeds.SUBMITS[seed])) == 0
    (spec,) = jobs.submitted
    workers = 1 if "1x8" in seed else 4
    worker = spec.role(RoleName.WORKER)
    assert worker is not None
    assert (worker.replicas, worker.resources.gpus, spec.slots_per_worker) == (workers, 8, 8)
    assert spec.command == ("./launch-example.sh", str(workers), "8")
    assert spec.environment["num_batch"] == "1000"
    assert spec.environment["datasets_num_private_threads"] == "8"
    assert spec.clean_policy is CleanPolicy.ALL
    if seed == "004":
        assert spec.name == "job-jindofs"
        assert spec.host_folders == (HostFolder(host_path="/mnt/jfs/test", path="/data/imagenet"),)
    else:
        assert spec.data[0].path == "/data"
    manifest = job_object(spec)
    assert manifest["apiVersion"] == "kubeflow.org/v2beta1"
    assert manifest["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == workers
    out, err = capsys.readouterr()
    assert out == f"mpijob.kubeflow.org/{spec.name} created\nconfigmap/{spec.name}-mpijob created\n"
    assert f"The Job {spec.name} has been submitted successfully" in err
    assert f"arena get {spec.name} --type mpijob -n default" in err


values = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)


@given(value=values, words=st.lists(values, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
def test_what_a_shell_hands_over_arrives_unchanged(
    jobs: MemoryJobBackend, value: str, words: list[str]
) -> None:
    jobs.views.clear()
    # What a shell does to quoted words and back is a part of the way.
    line = shlex.join(
        [
            "submit",
            "mpi",
            "--name",
            "a",
            "--image",
            "i",
            "-e",
            f"V={value}",
            f"--env=W={value}",
            "run",
            *words,
        ]
    )
    assert main(shlex.split(line)) == 0
    spec = jobs.submitted[-1]
    assert spec.command == ("run", *words)
    assert spec.environment == {"V": value, "W": value}


@pytest.mark.parametrize(
    "value", ["a,b", "it's", 'say "no"', "a # b", "key: value", "two\nlines", "ünï", "", "-x", "$(A) $$"]
)
def test_values_that_arena_spoiled(jobs: MemoryJobBackend, value: str) -> None:
    spec = submitted(jobs, "-e", f"V={value}", "run", value)
    assert spec.environment == {"V": value}
    assert spec.command == ("run", value)


def test_words_behind_the_first_one_of_the_command_are_its_own(jobs: MemoryJobBackend) -> None:
    assert submitted(jobs, "--gpus=2", "python", "train.py", "--gpus", "8", "-e", "x", "--").command == (
        *("python", "train.py", "--gpus", "8", "-e", "x", "--"),
    )
    jobs.views.clear()
    assert submitted(jobs, "--", "--odd", "--gpus=8").command == ("--odd", "--gpus=8")
    jobs.views.clear()
    assert submitted(jobs, "mpirun train.py --gpus 8 # not a comment").command == (
        "mpirun train.py --gpus 8 # not a comment",
    )


def test_old_spellings_are_taken_and_told_of(
    jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "-n",
        "team",
        "--loglevel",
        "debug",
        "submit",
        "mpijob",
        "--name=a",
        "--image=i",
        "--workingDir=/w",
    ]
    assert (
        main([*words, "--dataDir", "/mnt", "--rdma=true", "--gang=false", "-e=A=b", "--hostNetwork", "run"])
        == 0
    )
    spec = jobs.submitted[-1]
    assert (spec.namespace, spec.working_dir, spec.rdma, spec.gang, spec.host_network) == (
        "team",
        "/w",
        True,
        False,
        True,
    )
    assert spec.environment == {"A": "b"}
    assert spec.host_folders[0].path == "/mnt"
    assert "--workingDir is an old spelling: --working-dir is meant" in capsys.readouterr().err
    assert main(["list", "--allNamespaces", "--loglevel=debug"]) == 0


def test_all_faults_are_told_at_once_and_nothing_is_created(
    jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["submit", "mpi", "--name", "A", "--cpu", "x", "-e", "TOKEN-=hunter2", "run"]
    assert main(words) == 1
    assert headrace.main(["job", *words]) == 3
    err = capsys.readouterr().err
    for part in ("--name A", "--image is missing", "cpu x", "--env TOKEN-"):
        assert part in err
    assert "hunter2" not in err
    assert jobs.submitted == []


@pytest.mark.parametrize(
    "words",
    [
        ["--data", "imagenet"],
        ["--toleration", "gpu=v:Never"],
        ["--device", "nvidia.com/gpu=1"],
        ["--wait-warm", "101"],
        ["--workers", "-1"],
        ["--retry", "-1"],
        ["--running-timeout", "soon"],
        ["--clean-task-policy", "Some"],
        ["-o", "table"],
        ["--config-file", "/does/not/exist:/etc/a"],
        ["--sync-source", "x"],
        ["--env", "hunter2"],
    ],
)
def test_words_that_make_no_sense_create_nothing(
    words: list[str], jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", "mpi", "--name", "a", "--image", "i", *words, "run"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "hunter2" not in err
    assert jobs.submitted == []


def test_data_is_checked_before_anything_is_created(
    jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.rooms.append(NodeRoom("node-1", 8, 8, 0))
    words = [
        "submit",
        "mpi",
        "--name",
        "a",
        "--image",
        "i",
        "--data",
        "nothing:/data",
        "--gpus",
        "8",
        "--workers",
        "4",
    ]
    assert main([*words, "run"]) == 1
    err = capsys.readouterr().err
    assert "--data nothing is not there" in err
    assert "room for 1 of them" in err
    assert jobs.submitted == []
    assert main([*words, "--skip-checks", "run"]) == 0
    assert "warning: --data nothing is not there" in capsys.readouterr().err


def test_a_name_that_is_taken_is_refused(jobs: MemoryJobBackend) -> None:
    submitted(jobs, "run")
    assert main(["submit", "mpi", "--name", "a", "--image", "i", "run"]) == 1


def test_a_dry_run_creates_nothing_and_shows_no_secret(
    jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("password: hunter3\n")
    words = [
        "submit",
        "mpi",
        "--name",
        "a",
        "--image",
        "i",
        "-e",
        "API_KEY=hunter2",
        "-e",
        "DATA_DIR=/data/imagenet",
    ]
    words += ["--config-file", f"{file}:/etc/a.yaml", "--dry-run"]
    assert main([*words, "-o", "json", "run"]) == 0
    out = capsys.readouterr().out
    assert [each["kind"] for each in json.loads(out)["items"]] == ["MPIJob", "ConfigMap", "Secret"]
    assert "hunter" not in out
    assert "/data/imagenet" in out
    assert main([*words, "run"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n")
    assert out.count("\n---\n") == 2
    assert "hunter" not in out
    assert main([*words, "--reveal-secrets", "run"]) == 0
    assert "hunter2" in capsys.readouterr().out
    assert jobs.submitted == []


def test_a_dry_run_needs_no_backend(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert main(["submit", "mpi", "--name", "a", "--image", "i", "--dry-run", "run"]) == 0
    assert "kind: MPIJob" in capsys.readouterr().out
    assert main(["submit", "mpi", "--name", "a", "--image", "i", "run"]) == 1
    err = capsys.readouterr().err
    assert "headrace up" in err
    assert "KUBECONFIG" in err


def test_flags_of_pytorch(jobs: MemoryJobBackend) -> None:
    words = [
        "submit",
        "pytorchjob",
        "--name",
        "a",
        "--image",
        "i",
        "--workers=3",
        "--gpus=2",
        "--nproc-per-node=2",
    ]
    assert (
        main([*words, "--ttl-after-finished=1h", "--share-memory", "8Gi", "torchrun", "--nnodes=3", "x.py"])
        == 0
    )
    spec = jobs.submitted[-1]
    assert [(role.name, role.replicas) for role in spec.roles] == [(RoleName.MASTER, 1), (RoleName.WORKER, 2)]
    assert (spec.ttl_after_finished_s, spec.shared_memory, spec.processes_per_node) == (3600, "8Gi", "2")
    assert spec.clean_policy is CleanPolicy.RUNNING
    assert spec.command == ("torchrun", "--nnodes=3", "x.py")


def test_flags_of_tensorflow(jobs: MemoryJobBackend) -> None:
    words = [
        "submit",
        "tf",
        "--name",
        "a",
        "--image",
        "i",
        "--workers=2",
        "--ps=1",
        "--psImage",
        "p",
        "--gpus=1",
    ]
    words += [
        "--worker-cpu=2",
        "--worker-cpu-limit=4",
        "--ps-memory=1Gi",
        "--evaluator",
        "--worker-selector",
        "a=b",
    ]
    words += ["--worker-port=2300", "--worker-affinity-policy=spread", "--success-policy=AllWorkers", "run"]
    assert main(words) == 0
    spec = jobs.submitted[-1]
    worker, server = spec.role(RoleName.WORKER), spec.role(RoleName.PS)
    assert worker is not None
    assert server is not None
    assert (worker.resources.cpu, worker.resources.cpu_limit, worker.resources.gpus, worker.port) == (
        "2",
        "4",
        1,
        2300,
    )
    assert (worker.selector, worker.affinity_policy) == ({"a": "b"}, "spread")
    assert (server.image, server.resources.memory, server.resources.gpus) == ("p", "1Gi", 0)
    assert spec.role(RoleName.EVALUATOR) is not None


def test_a_single_worker_of_tensorflow_is_the_chief(jobs: MemoryJobBackend) -> None:
    assert main(["submit", "tf", "--name", "a", "--image", "i", "--gpus=1", "run"]) == 0
    assert [role.name for role in jobs.submitted[-1].roles] == [RoleName.CHIEF]

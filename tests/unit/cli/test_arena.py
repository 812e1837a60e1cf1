"""The command `arena` on a backend in memory: its words become requests, its answers are the seeds'."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import arena_seeds
import pytest
from arena_seeds import words_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_jobs import MemoryJobBackend, seed_view

from headrace.cli import main as headrace
from headrace.cli.arena import opening, waiting
from headrace.cli.arena.main import main
from headrace.jobs.objects import job_object
from headrace.jobs.spec import CleanPolicy, HostFolder, JobKind, RoleName
from headrace.jobs.views import ClaimView, JobEvent, JobPhase, NodeRoom


def long_ago() -> datetime:
    return datetime.now(UTC) - timedelta(minutes=56, seconds=5)


def claim(name: str) -> ClaimView:
    return ClaimView(
        name, "default", ("ReadWriteMany",), "Bound", long_ago(), is_dataset=True, cached="100.0%"
    )


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> MemoryJobBackend:
    backend = MemoryJobBackend(
        volumes=[claim(name) for name in ("imagenet", "nfs-imagenet", "fluid-imagenet")]
    )
    monkeypatch.setattr(waiting, "_FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(waiting, "_LONGEST_PAUSE_S", 0.0)
    for name in ("local", "kubernetes"):
        monkeypatch.setitem(opening.OPENERS, name, lambda _environment, _kubeconfig: backend)
    monkeypatch.setenv("HEADRACE_JOBS_BACKEND", "kubernetes")
    return backend


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


def test_get_prints_what_seed_000_shows(jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.views.append(seed_view(created=(then := long_ago()), started=then))
    assert main(words_of(arena_seeds.GETS["000"])) == 0
    assert capsys.readouterr().out == (
        "STATUS: RUNNING\nNAMESPACE: default\nPRIORITY: N/A\nTRAINING DURATION: 56m\n\n"
        "NAME              STATUS   TRAINER  AGE  INSTANCE                         NODE\n"
        "horovod-resnet50  RUNNING  MPIJOB   56m  horovod-resnet50-launcher-xs7h4  192.168.0.15\n"
        "horovod-resnet50  RUNNING  MPIJOB   56m  horovod-resnet50-worker-0        192.168.0.15\n"
        "horovod-resnet50  RUNNING  MPIJOB   56m  horovod-resnet50-worker-1        192.168.0.14\n"
        "horovod-resnet50  RUNNING  MPIJOB   56m  horovod-resnet50-worker-2        192.168.0.12\n"
        "horovod-resnet50  RUNNING  MPIJOB   56m  horovod-resnet50-worker-3        192.168.0.13\n"
    )


@pytest.mark.parametrize("seed", ["001", "002"])
def test_e_of_get_asks_for_events(
    seed: str, jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    happened = JobEvent("pod/launcher", "Normal", long_ago(), "Pulled", "image is there")
    jobs.views.append(seed_view("horovod-resnet50-v2-4x8-fluid", events=(happened,)))
    assert main(words_of(arena_seeds.GETS[seed])) == 0
    out = capsys.readouterr().out
    assert out.startswith("STATUS: RUNNING\n")
    assert "[Pulled] image is there" in out


@pytest.mark.parametrize("seed", arena_seeds.LOGS)
def test_logs_are_those_of_the_launcher(
    seed: str, jobs: MemoryJobBackend, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    line = words_of(arena_seeds.LOGS[seed])
    launcher = f"{line[-1]}-launcher-xs7h4"
    jobs.views.append(seed_view(line[-1]))
    jobs.lines[launcher] = [b"step 1\n", b"\xff\n"]
    assert main(line) == 0
    assert capfdbinary.readouterr().out == b"step 1\n\xff\n"
    (wish,) = jobs.wishes
    assert (wish.tail, wish.follow, wish.instance) == (100, True, launcher)


def test_logs_of_one_and_of_all_instances(jobs: MemoryJobBackend) -> None:
    jobs.views.append(seed_view("a"))
    assert (
        main(["logs", "a", "-i", "worker-1", "--since", "1h", "-t", "-1", "-c", "mpi", "--timestamps"]) == 0
    )
    assert main(["log", "a", "--all-instances", "--since-time", "2026-01-31T09:30:00Z"]) == 0
    first, second = jobs.wishes
    assert (first.instance, first.tail, first.container, first.timestamps) == (
        "a-worker-1",
        None,
        "mpi",
        True,
    )
    assert second.all_instances
    assert second.since == datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    assert main(["logs", "a", "--since", "1h", "--since-time", "2026-01-31T09:30:00Z"]) == 1


def test_delete_prints_what_seed_001_shows(
    jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.views.append(seed_view("horovod-resnet50-v2-4x8-fluid"))
    assert main(words_of(arena_seeds.DELETES["001"])) == 0
    out, err = capsys.readouterr()
    assert out == (
        'mpijob.kubeflow.org "horovod-resnet50-v2-4x8-fluid" deleted\n'
        'configmap "horovod-resnet50-v2-4x8-fluid-mpijob" deleted\n'
    )
    assert re.match(r"INFO\[\d{4,}\] The training job", err)
    assert err.endswith("] The training job horovod-resnet50-v2-4x8-fluid has been deleted successfully\n")
    assert jobs.views == []


def test_a_missing_job_keeps_no_other_from_being_deleted(
    jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.views += [seed_view("a"), seed_view("c")]
    assert main(["delete", "a", "b", "c"]) == 1
    assert jobs.views == []
    assert "Not found training job b" in capsys.readouterr().err


def test_a_missing_job_is_an_error_of_every_verb(
    jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("get", "logs", "attach", "release", "delete"):
        assert main([verb, "none"]) == 1
        assert "Not found training job none in namespace default" in capsys.readouterr().err
    assert headrace.main(["job", "get", "none"]) == 4


def test_the_same_name_in_two_kinds_must_be_told_apart(jobs: MemoryJobBackend) -> None:
    jobs.views += [seed_view("a"), seed_view("a", kind=JobKind.TF)]
    assert main(["get", "a"]) == 1
    assert main(["get", "a", "--type", "Tensorflow"]) == 0
    assert main(["delete", "a", "-T", "mpi"]) == 0
    assert [view.kind for view in jobs.views] == [JobKind.TF]


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


def test_a_state_folder_too_long_for_a_socket_says_that_nothing_is_up_on_this_machine(
    jobs: MemoryJobBackend,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("HEADRACE_JOBS_BACKEND")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / ("long" * 30)))
    assert main(["list"]) == 1
    assert "jobs can run nowhere" in capsys.readouterr().err
    (tmp_path / "config").write_text("")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert main(["list"]) == 0


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


def test_wait_answers_how_the_job_ended(jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]) -> None:
    for phase, code in ((JobPhase.SUCCEEDED, 0), (JobPhase.FAILED, 1)):
        jobs.views[:] = [seed_view("a")]
        jobs.course[:] = [JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RUNNING, phase]
        assert main(["wait", "a"]) == code
        lines = capsys.readouterr().err.splitlines()
        assert lines == ["a: PENDING", "a: RUNNING", f"a: {phase.value}"]
    assert "a" in jobs.tended


def test_wait_ends_in_time(jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.views.append(seed_view("a"))
    assert main(["wait", "a", "--timeout", "0"]) == 124
    assert headrace.main(["job", "wait", "a", "--timeout", "0"]) == 124
    assert "timed out" in capsys.readouterr().err


def test_waiting_for_a_job_that_is_not_there_is_no_failed_job(jobs: MemoryJobBackend) -> None:
    assert main(["wait", "a"]) == 4


def test_one_failed_job_of_several_is_a_failure(jobs: MemoryJobBackend) -> None:
    jobs.views += [seed_view("a", phase=JobPhase.FAILED), seed_view("b", phase=JobPhase.SUCCEEDED)]
    assert main(["wait", "a", "b"]) == 1
    assert main(["wait", "b"]) == 0


def test_submit_waits_and_answers_the_same(jobs: MemoryJobBackend) -> None:
    jobs.course[:] = [JobPhase.RUNNING, JobPhase.FAILED]
    assert main(["submit", "mpi", "--name", "a", "--image", "i", "--wait", "run"]) == 1
    jobs.course[:] = [JobPhase.SUCCEEDED]
    assert main(["submit", "mpi", "--name", "b", "--image", "i", "--wait", "--timeout=1h", "run"]) == 0


def test_ctrl_c_leaves_the_job(
    jobs: MemoryJobBackend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_job: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "tend", interrupt)
    assert main(["submit", "mpi", "--name", "a", "--image", "i", "--wait", "run"]) == 130
    assert "arena wait a" in capsys.readouterr().err
    assert [view.name for view in jobs.views] == ["a"]


def test_list_shows_the_newest_first_and_selects_states(
    jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.views += [
        seed_view("old"),
        seed_view("new", created=long_ago(), phase=JobPhase.FAILED),
        seed_view("else", namespace="team"),
    ]
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["NAME", "new", "old"]
    assert main(["ls", "-A", "--status", "failed", "-o", "json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["new"]
    assert main(["list", "--status", "asleep"]) == 1


def test_get_for_programs(jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.views.append(seed_view("a"))
    assert main(["get", "a", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["chiefName"] == "a-launcher-xs7h4"
    assert main(["get", "a", "-o", "yaml"]) == 0
    assert "chiefName: a-launcher-xs7h4\n" in capsys.readouterr().out
    assert main(["get", "a", "-o", "name"]) == 1


def test_attach_answers_what_its_program_did(jobs: MemoryJobBackend) -> None:
    jobs.views.append(seed_view("a"))
    assert main(["attach", "a", "-i", "worker-0", "--", "ls", "-l"]) == 7
    assert main(["attach", "a"]) == 7
    assert jobs.attached == [("a-worker-0", "", ("ls", "-l")), ("a-launcher-xs7h4", "", ("sh",))]


def test_prune_takes_ended_jobs_alone(jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]) -> None:
    ended = replace(seed_view("done"), phase=JobPhase.SUCCEEDED, ended=long_ago())
    jobs.views += [ended, seed_view("running"), replace(ended, name="elsewhere", namespace="team")]
    assert main(["prune"]) == 1
    assert main(["prune", "-s", "1h"]) == 0
    assert len(jobs.views) == 3
    assert main(["prune", "-s", "50m", "--dry-run"]) == 0
    assert capsys.readouterr().out == "mpijob default/done SUCCEEDED\n"
    assert main(["prune", "-s", "50m"]) == 0
    assert [view.name for view in jobs.views] == ["running", "elsewhere"]


def test_release_starts_what_waits(jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.views += [
        seed_view("held", phase=JobPhase.SUSPENDED),
        seed_view("running"),
        seed_view("done", phase=JobPhase.FAILED),
    ]
    assert main(["release", "held"]) == 0
    assert capsys.readouterr().out == "job held started\n"
    assert main(["release", "running"]) == 1
    assert main(["release", "done"]) == 0
    assert "holds nothing" in capsys.readouterr().err


def test_top_and_data(jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.views.append(seed_view("a"))
    jobs.rooms.append(NodeRoom("node-1", 8, 8, 0))
    for words in (
        ["top", "job"],
        ["top", "job", "a"],
        ["top", "node"],
        ["top", "node", "node-1"],
        ["data", "list"],
    ):
        assert main(words) == 0
        assert capsys.readouterr().out.splitlines()[0].split()[0] in ("NAME", "INSTANCE")
        assert main([*words, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)
    assert main(["top", "node", "none"]) == 1


def test_top_shows_one_instance_of_a_job(jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.views.append(seed_view("a"))
    assert main(["top", "job", "a", "-i", "worker-1"]) == 0
    head, row, *_, total = capsys.readouterr().out.splitlines()
    assert head.startswith("INSTANCE")
    assert row.startswith("a-worker-1  RUNNING")
    assert total == "Allocated/Requested GPUs of Job: 8/8"
    assert main(["top", "job", "a", "--instance", "a-worker-1", "-o", "json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["instances"]] == ["a-worker-1"]
    assert main(["top", "job", "-i", "worker-1"]) == 1
    assert main(["top", "job", "a", "-i", "worker-9"]) == 1


def test_get_has_gpus_where_that_is_asked_for(
    jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.views.append(seed_view("a"))
    assert main(["get", "a", "-g"]) == 0
    out, err = capsys.readouterr()
    assert "\n\nGPUs:\nINSTANCE" in out
    assert err == ""


def test_wrong_words_are_told_apart_from_faults(
    jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["get"]) == 2
    assert main(["submit", "mpi", "--no-such-flag", "x"]) == 2
    assert main(["submit", "horovod", "--name", "a", "x"]) == 2
    assert headrace.main(["job", "submit", "mpi", "--no-such-flag", "x"]) == 2
    assert "arena" in capsys.readouterr().err


def test_help_is_no_error(jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "mpi", "--help"]) == 0
    assert "--wait-warm" in capsys.readouterr().out
    assert headrace.main(["job", "--help"]) == 0
    assert "submit" in capsys.readouterr().out


def test_headrace_job_does_the_same(jobs: MemoryJobBackend, capsys: pytest.CaptureFixture[str]) -> None:
    assert headrace.main(["job", *words_of(arena_seeds.SUBMITS["000"])]) == 0
    assert headrace.main(["job", "-n", "default", "get", "horovod-resnet50", "-e"]) == 0
    assert "horovod-resnet50-launcher-xs7h4" in capsys.readouterr().out


def test_the_backend_is_the_one_that_is_named_or_there(
    jobs: MemoryJobBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[str] = []
    for name in ("local", "kubernetes"):
        monkeypatch.setitem(opening.OPENERS, name, lambda *_, name=name: (opened.append(name), jobs)[1])
    monkeypatch.delenv("HEADRACE_JOBS_BACKEND")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert main(["list"]) == 1
    assert main(["list", "--backend", "local"]) == 0
    assert main(["list", "--config", "file"]) == 0
    (tmp_path / "config").write_text("")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "none"), str(tmp_path / "config")]))
    assert main(["list"]) == 0
    assert main(["list", "--backend", "cloud"]) == 1
    assert main(["list", "--backend", "local", "--config", "file"]) == 1
    assert opened == ["local", "kubernetes", "kubernetes"]

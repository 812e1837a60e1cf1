"""The command `arena` on a backend in memory: jobs are shown as the seeds show them, ended, and told apart."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import arena_seeds
import pytest
from arena_seeds import words_of
from memory_jobs import MemoryJobBackend, long_ago, seed_view

from headrace.cli import main as headrace
from headrace.cli.arena import backend_choice
from headrace.cli.arena.main import main
from headrace.jobs.spec import JobKind
from headrace.jobs.views import JobEvent, JobPhase, NodeRoom


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
        monkeypatch.setitem(
            backend_choice.OPENERS, name, lambda *_, name=name: (opened.append(name), jobs)[1]
        )
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

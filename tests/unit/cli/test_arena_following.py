"""`arena logs`, `wait` and `attach` on a backend in memory: a job is followed to its end."""

from __future__ import annotations

from datetime import UTC, datetime

import arena_seeds
import pytest
from arena_seeds import words_of
from memory_jobs import MemoryJobBackend, seed_view

from headrace.cli import main as headrace
from headrace.cli.arena.main import main
from headrace.jobs.views import JobPhase


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


def test_attach_answers_what_its_program_did(jobs: MemoryJobBackend) -> None:
    jobs.views.append(seed_view("a"))
    assert main(["attach", "a", "-i", "worker-0", "--", "ls", "-l"]) == 7
    assert main(["attach", "a"]) == 7
    assert jobs.attached == [("a-worker-0", "", ("ls", "-l")), ("a-launcher-xs7h4", "", ("sh",))]

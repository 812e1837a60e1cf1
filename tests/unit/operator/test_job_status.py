"""How far a Job is, told by itself and its newest pod; and what that means for each kind of work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.operations.run_notes import Note
from headrace.operator.operations.backup_driver import backup_facts
from headrace.operator.operations.copy_driver import copy_facts
from headrace.operator.operations.job_status import JobStatus, job_status
from headrace.plan.operation_inputs import JobState

NOTE = Note("copy", "once", "2026-01-31T09:30:00Z")
ENDED = "2026-01-31T09:31:00Z"


def job(done: str = "", **more: Any) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": done, "status": "True", **more}] if done else []}}


def pod(phase: str, made: str = "2026-01-31T09:30:01Z", node: str = "node-1", **end: Any) -> dict[str, Any]:
    state = {"terminated": {"finishedAt": ENDED, **end}} if end else {}
    return {
        "metadata": {"creationTimestamp": made},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "containerStatuses": [{"state": state}]},
    }


def standing(found: JobStatus | None) -> JobStatus:
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("made", "pods", "state"),
    [
        (job(), [], JobState.STARTING),
        (job(), [pod("Pending")], JobState.STARTING),
        (job(), [pod("Running")], JobState.RUNNING),
        (job("Complete"), [pod("Succeeded", exitCode=0)], JobState.COMPLETE),
        (job("Failed"), [pod("Failed", exitCode=1)], JobState.FAILED),
        # Words of Jobs and of pods come by different ways.
        (job("Complete"), [pod("Running")], JobState.RUNNING),
        # Pods that somebody took away have said all that they will.
        (job("Complete"), [], JobState.COMPLETE),
        # Job deleted, pod on its way out.
        (None, [pod("Running")], JobState.RUNNING),
    ],
)
def test_state_follows_job_and_pod(made: Any, pods: list[Any], state: JobState) -> None:
    assert standing(job_status(made, pods)).state is state


def test_nothing_is_left_when_job_and_pods_are_gone() -> None:
    assert job_status(None, []) is None


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ({"exitCode": 3, "message": "first\nno such class\n"}, "exit code 3: no such class"),
        ({"exitCode": 137, "reason": "OOMKilled"}, "exit code 137 (OOMKilled)"),
        ({"exitCode": 2, "reason": "Error", "message": ""}, "exit code 2"),
    ],
)
def test_failure_is_told_by_exit_code_and_last_line(end: dict[str, Any], why: str) -> None:
    found = standing(job_status(job("Failed"), [pod("Failed", **end)]))
    assert (found.why, found.exit_code) == (why, end["exitCode"])


def test_failure_without_a_pod_is_told_by_the_job() -> None:
    found = standing(job_status(job("Failed", message="it reached its backoff limit"), []))
    assert (found.why, found.exit_code) == ("it reached its backoff limit", None)


def test_newest_pod_tells() -> None:
    pods = [
        pod("Succeeded", made="2026-01-31T09:30:09Z", node="node-2", exitCode=0),
        pod("Failed", made="2026-01-31T09:30:01Z", node="node-1", exitCode=137),
    ]
    found = standing(job_status(job("Complete"), pods))
    assert (found.node, found.exit_code) == ("node-2", 0)


def test_the_container_that_failed_tells_not_its_neighbour() -> None:
    both = pod("Failed", exitCode=0, message="fine")
    both["status"]["containerStatuses"].append(
        {"state": {"terminated": {"exitCode": 4, "message": "broken"}}}
    )
    assert standing(job_status(job("Failed"), [both])).why == "exit code 4: broken"


def word(**more: Any) -> str:
    counts = {"done_files": 3, "total_files": 4, "done_bytes": 30, "total_bytes": 40}
    return json.dumps({"state": "failed", "started_at": NOTE.started, "ended_at": ENDED, **counts, **more})


def test_a_copy_that_counted_its_files_is_judged_by_them() -> None:
    ended = JobStatus(JobState.FAILED, "node-1", exit_code=11, said=word(faults=120, errors=["a: b"]))
    facts = copy_facts(NOTE, ended)
    assert facts.state is JobState.COMPLETE
    assert not facts.is_whole
    assert (facts.faults, facts.done_files, facts.total_bytes, facts.node) == (120, 3, 40, "node-1")


@pytest.mark.parametrize(
    "said",
    [
        word(total_files=0, message="the bucket is not there"),
        word(state="cancelled", message="the bucket is not there"),
    ],
)
def test_a_copy_that_could_not_begin_or_was_cancelled_failed(said: str) -> None:
    facts = copy_facts(NOTE, JobStatus(JobState.FAILED, said=said, why="exit code 1: {"))
    assert (facts.state, facts.message) == (JobState.FAILED, "the bucket is not there")


def test_a_copy_without_a_last_word_is_told_by_its_job() -> None:
    facts = copy_facts(NOTE, JobStatus(JobState.FAILED, said="Killed", why="exit code 137: Killed"))
    assert (facts.state, facts.message) == (JobState.FAILED, "exit code 137: Killed")


def test_what_is_left_of_a_killed_pod_does_not_end_a_copy_that_goes_on() -> None:
    assert copy_facts(NOTE, JobStatus(JobState.RUNNING, said=word())).state is JobState.RUNNING


@pytest.mark.parametrize(("said", "kept"), [('{"kept_bytes": 512}', 512), ("no JSON", 0), ("[]", 0)])
def test_a_backup_tells_what_was_kept(said: str, kept: int) -> None:
    facts = backup_facts(NOTE, JobStatus(JobState.COMPLETE, "node-1", said=said))
    assert (facts.done_bytes, facts.total_bytes, facts.node) == (kept, kept, "node-1")

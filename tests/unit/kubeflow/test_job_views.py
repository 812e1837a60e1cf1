"""What is shown of a job, from what the API server has of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from job_objects import (
    BEGAN,
    Content,
    at,
    condition,
    ended_with,
    failed,
    launcher,
    mpijob,
    pod,
    succeeded,
    worker,
)

from headrace.jobs.naming import QUEUE_LABEL, WAIT_WARM
from headrace.jobs.spec import JobKind, RoleName
from headrace.jobs.views import JobEvent, JobPhase
from headrace.kubeflow.job_views import Known, pods_of, view_of
from headrace.kubeflow.keeper_plan import decide
from headrace.kubeflow.names import KEPT_ANNOTATION
from headrace.kubeflow.notes import KeptInstance, Note, text_of
from headrace.kubeflow.pod_states import instance_of

RUNNING = condition("Running", 7)
UNSCHEDULABLE = condition(
    "PodScheduled", 1, "False", reason="Unschedulable", message="0/4 nodes: unbound claims"
)
SILENT = {
    "conditions": [condition("Ready", 9, "False")],
    "containerStatuses": [{"name": "mpi", "ready": True, "state": {"running": {"startedAt": at(5)}}}],
}


def disrupted(reason: str) -> dict[str, list[Content]]:
    return {"conditions": [condition("DisruptionTarget", 9, reason=reason, message="as it pleases")]}


NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}


@pytest.mark.parametrize(
    ("job", "pods", "phase", "words"),
    [
        (mpijob(), [], JobPhase.PENDING, "the Kubeflow MPI operator has not made them"),
        (mpijob(RUNNING), [launcher(), worker(0), worker(1)], JobPhase.RUNNING, ""),
        (
            mpijob(RUNNING),
            [launcher(), worker(0), worker(1, "Pending", conditions=[UNSCHEDULABLE], state={})],
            JobPhase.PENDING,
            "resnet-worker-1 waits: no node takes it: 0/4 nodes: unbound claims",
        ),
        (
            mpijob(condition("Created", 0)),
            [worker(0, "Pending", state=NO_IMAGE), worker(1, "Pending")],
            JobPhase.PENDING,
            "resnet-worker-0 waits (and 1 more): its image cannot be pulled (ImagePullBackOff)",
        ),
        (mpijob(suspend=True), [], JobPhase.SUSPENDED, "arena release"),
        (succeeded(), [launcher("Succeeded")], JobPhase.SUCCEEDED, ""),
        (failed(), [], JobPhase.FAILED, "BackoffLimitExceeded: it has failed"),
        (
            failed(),
            [launcher("Failed", state=ended_with(3))],
            JobPhase.FAILED,
            "resnet-launcher-x7k2p: it ended with exit code 3",
        ),
        (
            failed(),
            [launcher("Failed"), worker(1, "Failed", state=ended_with(137, "OOMKilled"))],
            JobPhase.FAILED,
            "resnet-worker-1: it went over its memory limit",
        ),
        (
            failed(),
            [launcher("Failed", state=ended_with(137)), worker(1)],
            JobPhase.FAILED,
            "resnet-launcher-x7k2p: it or one of its ranks was killed (SIGKILL), as for want of memory",
        ),
        (
            failed(),
            [launcher("Failed"), worker(1, "Failed", reason="Evicted", message="the disk is full")],
            JobPhase.FAILED,
            "resnet-worker-1: Evicted: the disk is full",
        ),
        (
            mpijob(RUNNING),
            [launcher(), worker(0), worker(1, **SILENT)],
            JobPhase.RUNNING,
            "resnet-worker-1: its node node-1 does not answer",
        ),
        (
            mpijob(RUNNING),
            [
                launcher(),
                *(worker(index, leaving=True, **disrupted("DeletionByTaintManager")) for index in (0, 1)),
            ],
            JobPhase.RUNNING,
            "resnet-worker-0 (and 1 more): its node node-1 is away",
        ),
        (
            failed(),
            [
                launcher("Failed"),
                worker(1, "Failed", state=ended_with(143), **disrupted("EvictionByEvictionAPI")),
            ],
            JobPhase.FAILED,
            "resnet-worker-1: it was evicted, as when its node node-1 is drained",
        ),
        (
            mpijob(RUNNING),
            [launcher(leaving=True, **disrupted("SomethingNew")), worker(0)],
            JobPhase.RUNNING,
            "resnet-launcher-x7k2p: Kubernetes ended it: as it pleases",
        ),
    ],
)
def test_phase_and_reason(job: Content, pods: list[Content], phase: JobPhase, words: str) -> None:
    view = view_of(job, pods)
    assert view.phase is phase
    assert (words in view.reason) if words else view.reason == ""


def test_a_job_in_a_queue_is_queuing() -> None:
    job = mpijob(suspend=True)
    job["metadata"]["labels"][QUEUE_LABEL] = "team-a"
    view = view_of(job, [])
    assert (view.phase, view.reason) == (JobPhase.QUEUING, "the queue team-a has not let it in")


def test_a_job_that_waits_for_its_data_says_how_far_that_is() -> None:
    job = mpijob(suspend=True, annotations={WAIT_WARM: "90"})
    assert "90 % of its data" in view_of(job, []).reason
    assert view_of(job, [], Known(cold="imagenet 12 %")).reason == "imagenet 12 %"


@pytest.mark.parametrize(
    ("said", "phase"),
    [("Active", JobPhase.RUNNING), ("Succeeded", JobPhase.SUCCEEDED), ("Failed", JobPhase.FAILED)],
)
def test_the_first_version_has_a_status_of_its_own(said: str, phase: JobPhase) -> None:
    assert view_of(mpijob(launcherStatus=said), []).phase is phase


def test_training_begins_when_all_pods_run_and_not_before() -> None:
    assert view_of(mpijob(), [launcher(), worker(0)]).started is None
    assert view_of(mpijob(RUNNING), [launcher(), worker(0), worker(1)]).started == BEGAN + timedelta(
        seconds=7
    )
    ended = view_of(succeeded(60), [])
    assert (ended.started, ended.ended) == (BEGAN + timedelta(seconds=5), BEGAN + timedelta(seconds=60))


def test_an_end_that_came_before_anybody_saw_it_run_is_no_beginning() -> None:
    ends = (condition("Running", 9, "False"), condition("Succeeded", 9))
    assert view_of(mpijob(*ends, completionTime=at(9)), []).started is None


def test_the_launcher_comes_first_and_is_the_chief() -> None:
    view = view_of(mpijob(RUNNING), [worker(1), worker(0), launcher()])
    assert [each.name for each in view.instances] == [
        "resnet-launcher-x7k2p",
        "resnet-worker-0",
        "resnet-worker-1",
    ]
    assert [each.is_chief for each in view.instances] == [True, False, False]
    assert view.instances[0].node == "node-1"
    assert view.instances[0].node_address == "198.18.0.1"


def test_of_two_tries_the_one_that_runs_is_the_chief() -> None:
    first = pod("resnet-launcher-aaaaa", "launcher", "Failed", created=1)
    second = pod("resnet-launcher-bbbbb", "launcher", created=30)
    chief = view_of(mpijob(RUNNING), [first, second]).chief
    assert chief is not None
    assert chief.name == "resnet-launcher-bbbbb"


def test_a_launcher_whose_name_ends_in_digits_has_no_index_of_that() -> None:
    assert instance_of(pod("resnet-launcher-24567", "launcher", index=24567)).index == 0


def test_pods_that_are_gone_are_shown_as_they_were_last() -> None:
    gone = replace(instance_of(launcher("Succeeded")), is_chief=True)
    note = Note(instances=(KeptInstance(gone, "uid-of-it", has_log=True),), started=BEGAN)
    view = view_of(succeeded(annotations={KEPT_ANNOTATION: text_of(note)}), [])
    assert [each.status for each in view.instances] == ["SUCCEEDED"]
    assert (view.exit_code, view.started) == (0, BEGAN)


def test_the_exit_code_is_that_of_the_chief() -> None:
    assert view_of(failed(), [launcher("Failed", state=ended_with(7))]).exit_code == 7
    assert view_of(mpijob(RUNNING), [launcher()]).exit_code is None


def test_the_exit_code_of_a_chief_that_was_ended_with_the_job_is_that_of_who_failed() -> None:
    chief = launcher("Failed", state=ended_with(143, seconds=75), leaving=True)
    job = failed()
    pods = [chief, worker(1, "Failed", state=ended_with(7))]
    note = decide(job, pods, (), (), BEGAN + timedelta(seconds=76)).note
    job["metadata"]["annotations"][KEPT_ANNOTATION] = text_of(note)
    # The launcher is gone by then.
    view = view_of(job, pods[1:])
    assert (view.exit_code, view.reason) == (7, "resnet-worker-1: it ended with exit code 7")


def test_the_last_warning_is_told_of_a_job_that_waits() -> None:
    events = tuple(
        JobEvent("pod/resnet-worker-0", kind, BEGAN + timedelta(seconds=second), "FailedMount", text)
        for second, (kind, text) in enumerate([("Warning", "old"), ("Warning", "no mount"), ("Normal", "x")])
    )
    reason = view_of(mpijob(), [worker(0, "Pending")], Known(events=events)).reason
    assert reason.endswith("FailedMount: no mount")


def test_pods_of_an_earlier_job_of_the_same_name_are_not_its_own() -> None:
    old = pod("resnet-launcher-old", "launcher", created=-30)
    foreign = worker(0)
    foreign["metadata"]["ownerReferences"] = [{"kind": "MPIJob", "uid": "another"}]
    own = worker(1)
    own["metadata"]["ownerReferences"] = [{"kind": "MPIJob", "uid": "uid-of-resnet"}]
    assert pods_of(mpijob(), [old, foreign, own, launcher()]) == [own, launcher()]


def test_roles_of_other_kinds_are_known_by_their_labels() -> None:
    master = worker(0)
    master["metadata"]["labels"] |= {
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-type": "master",
        "training.kubeflow.org/job-role": "master",
    }
    job = mpijob() | {"kind": "PyTorchJob"}
    assert pods_of(job, [master]) == [master]
    view = view_of(job, [master])
    assert (view.kind, view.instances[0].role, view.instances[0].is_chief) == (
        JobKind.PYTORCH,
        RoleName.MASTER,
        True,
    )


def of_old_operator(name: str, word: str, role: str, index: int) -> Content:
    """A pod as the operators label it that Arena installs."""
    made = pod(name, role)
    labels = {"group-name": "kubeflow.org", "job-name": "resnet", f"{word}-job-name": "resnet"}
    labels |= {f"{word}-replica-type": role, f"{word}-replica-index": str(index)}
    return made | {"metadata": made["metadata"] | {"labels": labels}}


@pytest.mark.parametrize(
    ("kind", "word", "chief"), [("PyTorchJob", "pytorch", RoleName.MASTER), ("TFJob", "tf", RoleName.CHIEF)]
)
def test_pods_of_operators_before_the_training_operator_are_the_jobs(
    kind: str, word: str, chief: RoleName
) -> None:
    job = mpijob(RUNNING) | {"apiVersion": "kubeflow.org/v1", "kind": kind}
    pods = [
        of_old_operator("resnet-worker-1", word, "worker", 1),
        of_old_operator("resnet-chief-0", word, chief.value, 0),
    ]
    assert pods_of(job, [*pods, worker(0)]) == pods
    seen = view_of(job, pods).instances
    assert [(each.role, each.index, each.is_chief) for each in seen] == [
        (chief, 0, True),
        (RoleName.WORKER, 1, False),
    ]

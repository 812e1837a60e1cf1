"""What the keeper does for a job, moment by moment."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_objects import (
    BEGAN,
    Content,
    at,
    condition,
    ended_with,
    failed,
    launcher,
    mpijob,
    of_training_operator,
    succeeded,
    worker,
)

from headrace.jobs.naming import STARTING_TIMEOUT, TTL, WAIT_WARM
from headrace.jobs.warmth import Warmth
from headrace.kubeflow.job_views import view_of
from headrace.kubeflow.keeper_plan import (
    DeleteJob,
    DeletePod,
    Fail,
    HoldBack,
    KeepLog,
    Plan,
    Start,
    TakeOverCleaning,
    decide,
)
from headrace.kubeflow.names import CLEANING_ANNOTATION, KEPT_ANNOTATION
from headrace.kubeflow.notes import MOST_INSTANCES, KeptInstance, Note, note_of, text_of
from headrace.kubeflow.pod_states import instance_of

END_S = 60


def look(
    job: Content, *pods: Content, gone: tuple[Content, ...] = (), seconds: float = 61, **more: Any
) -> Plan:
    return decide(job, pods, gone, more.get("warmth", ()), BEGAN + timedelta(seconds=seconds))


def noted(job: Content, note: Note) -> Content:
    job["metadata"]["annotations"][KEPT_ANNOTATION] = text_of(note)
    return job


def with_logs(plan: Plan) -> Note:
    """The note when all logs that the plan wants kept are."""
    note = plan.note
    for step in plan.steps:
        if isinstance(step, KeepLog):
            note = note.with_log(step.pod["metadata"]["uid"])
    return note


@pytest.mark.parametrize(
    ("percents", "starts"),
    [([], True), ([90.0], True), ([100.0, 89.9], False), ([None], False), ([95.0, 90.0], True)],
)
def test_a_job_starts_when_all_its_datasets_are_warm(percents: list[float | None], starts: bool) -> None:
    job = mpijob(suspend=True, annotations={WAIT_WARM: "90"})
    plan = look(job, warmth=[Warmth(f"d{number}", each) for number, each in enumerate(percents)])
    assert plan.steps == ((Start(),) if starts else ())
    assert plan.requeue_after_s == 5


def test_a_job_that_is_suspended_by_others_is_left_alone() -> None:
    assert look(mpijob(suspend=True)).steps == ()


def test_logs_come_before_pods_go() -> None:
    pods = (launcher("Succeeded", claims=("imagenet",)), worker(0, "Succeeded"))
    plan = look(succeeded(), *pods)
    assert plan.steps == tuple(map(KeepLog, pods))
    after = look(noted(succeeded(), with_logs(plan)), *pods)
    assert after.steps == tuple(DeletePod(each["metadata"]["name"], each["metadata"]["uid"]) for each in pods)


def test_pods_without_claims_stay() -> None:
    plan = look(succeeded(), launcher("Succeeded"))
    assert look(noted(succeeded(), with_logs(plan)), launcher("Succeeded")).steps == ()


@pytest.mark.parametrize(
    ("job", "takes_over"),
    [
        (of_training_operator(mpijob()), True),
        (of_training_operator(mpijob(suspend=True)), True),
        (of_training_operator(mpijob(), "Running"), False),
        (of_training_operator(mpijob(), "None"), False),
        (of_training_operator(succeeded()), False),
        (mpijob(), False),
    ],
)
def test_an_operator_that_would_delete_logs_with_their_pods_is_told_to_leave_them(
    job: Content, *, takes_over: bool
) -> None:
    assert look(job, worker(0)).steps == ((TakeOverCleaning(),) if takes_over else ())


def test_pods_without_claims_go_as_well_where_the_keeper_cleans_up() -> None:
    job = of_training_operator(succeeded(annotations={CLEANING_ANNOTATION: "All"}), "Running")
    plan = look(job, launcher("Succeeded"))
    assert plan.steps == (KeepLog(launcher("Succeeded")),)
    after = look(noted(job, with_logs(plan)), launcher("Succeeded"))
    assert [type(each) for each in after.steps] == [DeletePod]


def test_pods_that_still_run_are_not_ended() -> None:
    """As with the clean policy None."""
    assert look(succeeded(), worker(0)).steps == ()


def test_volumes_are_worth_more_than_a_log_that_cannot_be_read() -> None:
    pod = worker(0, "Succeeded")
    # Also one that comes long after the end tries first.
    first = look(succeeded(), pod, seconds=9000)
    assert first.steps == (KeepLog(pod),)
    assert look(noted(succeeded(), first.note), pod, seconds=9119).steps == (KeepLog(pod),)
    after = look(noted(succeeded(), first.note), pod, seconds=9120)
    assert [type(step) for step in after.steps] == [DeletePod]


def test_a_worker_that_died_is_remembered_when_it_is_gone() -> None:
    dead = worker(1, "Failed", state=ended_with(137, "OOMKilled"))
    note = look(mpijob(condition("Running", 7)), launcher(), dead, seconds=30).note
    after = look(noted(failed(), note), launcher("Failed"), gone=(dead,)).note
    kept = after.of("uid-of-resnet-worker-1")
    assert kept is not None
    assert (kept.view.exit_code, kept.view.status) == (137, "FAILED")


def test_a_pod_that_is_deleted_while_the_job_runs_has_failed() -> None:
    note = look(mpijob(condition("Running", 7)), launcher(), worker(0, leaving=True), seconds=30).note
    kept = note.of("uid-of-resnet-worker-0")
    assert kept is not None
    assert (kept.view.status, kept.view.reason) == ("FAILED", "it was deleted while it ran")


def test_pods_that_are_cleaned_up_at_the_end_have_not_failed() -> None:
    for job, status in ((succeeded(), "SUCCEEDED"), (failed(), "TERMINATED")):
        kept = look(job, worker(0, leaving=True)).note.of("uid-of-resnet-worker-0")
        assert kept is not None
        assert (kept.view.status, kept.view.reason) == (status, "")


def test_pods_that_are_cleaned_up_before_the_operator_says_that_the_job_has_failed_have_not_failed() -> None:
    """As the training operator does it."""
    culprit = worker(1, "Failed", state=ended_with(7))
    note = look(mpijob(condition("Running", 7)), worker(0, leaving=True), culprit, seconds=71).note
    assert [(each.view.name, each.view.status, each.view.reason) for each in note.instances] == [
        ("resnet-worker-0", "TERMINATED", ""),
        ("resnet-worker-1", "FAILED", "it ended with exit code 7"),
    ]


@pytest.mark.parametrize(
    ("code", "ended_s", "grace_s", "status"),
    [
        *((143, 69, 30, "FAILED"), (143, 70, 30, "TERMINATED"), (7, 75, 30, "TERMINATED")),
        *((7, 99, 0, "FAILED"), (143, 99, 0, "TERMINATED"), (137, 99, 0, "TERMINATED")),
    ],
)
def test_a_pod_that_failed_before_it_was_cleaned_up_is_told_from_one_that_was_ended(
    code: int, ended_s: float, grace_s: int, status: str
) -> None:
    pod = worker(1, "Failed", state=ended_with(code, seconds=ended_s), leaving=True)
    pod["metadata"]["deletionGracePeriodSeconds"] = grace_s
    kept = look(failed(), pod, seconds=76).note.of("uid-of-resnet-worker-1")
    assert kept is not None
    assert kept.view.status == status


def test_a_pod_that_was_cleaned_up_stays_so_when_it_has_ended_at_last() -> None:
    note = look(failed(), worker(0, leaving=True)).note
    killed = worker(0, "Failed", state=ended_with(137, seconds=100), leaving=True)
    killed["metadata"]["deletionGracePeriodSeconds"] = 0
    (kept,) = look(noted(failed(), note), killed, seconds=102).note.instances
    assert (kept.view.status, kept.view.reason, kept.view.exit_code) == ("TERMINATED", "", 137)


def test_a_pod_that_went_with_its_node_is_the_reason_also_when_the_job_has_failed_before() -> None:
    """The training operator lets a job fail at once, while the pod is only being taken away."""
    lost = worker(1, leaving=True)
    away = condition("DisruptionTarget", 9, reason="DeletionByTaintManager")
    lost["status"]["conditions"] = [away]
    kept = look(failed(), lost, worker(0, leaving=True)).note.of("uid-of-resnet-worker-1")
    assert kept is not None
    assert kept.view.status == "FAILED"
    assert "its node node-1 is away" in kept.view.reason
    assert "its node node-1 is away" in view_of(failed(), [lost, launcher(leaving=True)]).reason


def test_an_evicted_job_ends_what_its_operator_leaves_running() -> None:
    evicted = mpijob(condition("Running", 5, "False"), condition("Failed", END_S, reason="MPIJobEvicted"))
    pods = (launcher(), worker(0, "Failed", reason="Evicted"))
    plan = look(evicted, *pods)
    assert {type(step) for step in plan.steps} == {KeepLog}
    assert look(noted(evicted, with_logs(plan)), *pods).steps == (HoldBack(),)


def test_a_job_that_does_not_start_in_time_fails_once_its_pods_are_gone() -> None:
    def job(**more: Any) -> Content:
        return mpijob(startTime=at(10), annotations={STARTING_TIMEOUT: "30"}, **more)

    pods = (worker(0, "Pending"),)
    assert look(job(), *pods, seconds=39).steps == ()
    late = look(job(), *pods, seconds=41)
    assert late.steps == (HoldBack(),)
    assert look(noted(job(suspend=True), late.note), *pods, seconds=42).steps == ()
    (step,) = look(noted(job(suspend=True), late.note), seconds=43).steps
    assert step == Fail("its processes did not start within 30 s")


def test_a_job_that_ran_once_is_in_time_for_ever() -> None:
    note = Note(started=BEGAN)
    job = noted(mpijob(startTime=at(10), annotations={STARTING_TIMEOUT: "30"}), note)
    assert look(job, worker(0, "Pending"), seconds=9999).steps == ()


def test_an_ended_job_goes_when_its_time_is_over() -> None:
    job = succeeded(END_S, annotations={TTL: "100"})
    assert look(job, seconds=END_S + 40).requeue_after_s == 60
    assert look(job, seconds=END_S + 100).steps == (DeleteJob(),)


def test_a_job_that_is_being_deleted_needs_nothing() -> None:
    job = succeeded()
    job["metadata"]["deletionTimestamp"] = at(61)
    assert look(job, worker(0, "Succeeded")).steps == ()


def test_when_it_ran_for_the_first_time_is_remembered() -> None:
    job = mpijob(condition("Running", 7))
    assert look(job, launcher(), worker(0), worker(1)).note.started == BEGAN + timedelta(seconds=5)
    assert look(job, launcher(), worker(0)).note.started is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["launcher", "worker"]), st.integers(0, 9), st.integers(0, 255), st.booleans()
        ),
        unique_by=lambda each: each[:2],
        max_size=8,
    ),
    st.none() | st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
)
def test_a_note_is_read_as_it_was_written(
    instances: list[tuple[str, int, int, bool]], started: datetime | None
) -> None:
    kept = tuple(
        KeptInstance(
            instance_of((worker if role == "worker" else launcher)(**_ended(role, index, code))),
            f"{role}-{index}",
            has_log,
        )
        for role, index, code, has_log in instances
    )
    note = Note(kept, started.replace(tzinfo=BEGAN.tzinfo) if started else None)
    assert note_of(noted(mpijob(), note)) == note


def _ended(role: str, index: int, code: int) -> dict[str, Any]:
    place = {"index": index} if role == "worker" else {}
    return {"phase": "Failed" if code else "Succeeded", "state": ended_with(code), **place}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "instances": [{}]}', "1"])
def test_a_note_that_makes_no_sense_is_none(text: str) -> None:
    assert note_of(mpijob(annotations={KEPT_ANNOTATION: text})) == Note()


def test_a_note_of_a_large_job_fits_and_says_who_failed() -> None:
    many = [worker(index, "Succeeded") for index in range(2000)] + [worker(2000, "Failed")]
    note = Note(tuple(KeptInstance(instance_of(each), each["metadata"]["uid"]) for each in many))
    text = text_of(note)
    assert len(text) < 120_000
    kept = note_of(mpijob(annotations={KEPT_ANNOTATION: text})).instances
    assert len(kept) == MOST_INSTANCES
    assert any(each.view.status == "FAILED" for each in kept)

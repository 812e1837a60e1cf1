from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from memory_jobs import BEGIN, seed_view

from headrace.errors import AmbiguousJobError, ConfigError, MissingJobError
from headrace.jobs import job_choice
from headrace.jobs.spec import JobKind
from headrace.jobs.views import JobPhase, JobView


def only(*found: JobView, kind: JobKind | None = None) -> JobView:
    return job_choice.only_job(found, lambda job: job.kind, "default", "a", kind)


def test_a_job_is_meant_when_it_alone_has_the_name() -> None:
    assert only(seed_view("a")) == seed_view("a")
    with pytest.raises(AmbiguousJobError, match="mpijob, tfjob") as ambiguous:
        only(seed_view("a"), seed_view("a", kind=JobKind.TF))
    assert "--type mpijob" in str(ambiguous.value.hint)


@pytest.mark.parametrize("kind", [None, JobKind.TF])
def test_a_job_that_is_not_there_is_told_in_the_words_that_programs_look_for(kind: JobKind | None) -> None:
    with pytest.raises(MissingJobError) as missing:
        only(kind=kind)
    assert (
        missing.value.message
        == "Not found training job a in namespace default,please use 'arena submit' to create it."
    )
    assert ("tfjob" in str(missing.value.hint)) is (kind is JobKind.TF)


def test_the_chief_is_meant_when_nobody_is_named() -> None:
    job = seed_view("a")
    assert job_choice.the_instance(job, "").name == "a-launcher-xs7h4"
    assert (
        job_choice.the_instance(job, "worker-1").name
        == job_choice.the_instance(job, "a-worker-1").name
        == "a-worker-1"
    )
    with pytest.raises(ConfigError, match="no instance worker-9"):
        job_choice.the_instance(job, "worker-9")


def test_without_a_chief_only_a_single_instance_is_clear() -> None:
    job = replace(seed_view("a"), instances=seed_view("a").instances[1:])
    with pytest.raises(ConfigError, match="none is its chief"):
        job_choice.the_instance(job, "")
    assert job_choice.the_instance(replace(job, instances=job.instances[:1]), "").name == "a-worker-0"
    with pytest.raises(MissingJobError, match="no instance yet: waits for GPUs"):
        job_choice.the_instance(replace(job, instances=(), reason="waits for GPUs"), "")


def test_only_ended_jobs_are_ever_pruned() -> None:
    ended = replace(seed_view("ended"), phase=JobPhase.FAILED, ended=BEGIN + timedelta(hours=1))
    jobs = [
        ended,
        *(replace(seed_view(phase.value.lower()), phase=phase) for phase in JobPhase if not phase.has_ended),
    ]
    assert job_choice.prunable(jobs, 0, BEGIN + timedelta(days=99)) == [ended]
    assert job_choice.prunable(jobs, 3600, BEGIN + timedelta(hours=2)) == [ended]
    assert job_choice.prunable(jobs, 3601, BEGIN + timedelta(hours=2)) == []


def test_the_newest_jobs_stand_first() -> None:
    jobs = [
        seed_view("a"),
        seed_view("b", created=BEGIN + timedelta(seconds=1)),
        seed_view("c", phase=JobPhase.FAILED),
    ]
    assert [job.name for job in job_choice.matching(jobs, ())] == ["b", "c", "a"]
    assert [job.name for job in job_choice.matching(jobs, [JobPhase.FAILED])] == ["c"]


def test_only_success_is_success() -> None:
    codes = {phase: job_choice.exit_code(seed_view(phase=phase)) for phase in JobPhase}
    assert [phase for phase, code in codes.items() if code == 0] == [JobPhase.SUCCEEDED]

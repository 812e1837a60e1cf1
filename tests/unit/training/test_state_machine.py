"""What is done for a job, step by step; and that it comes to its end whoever dies when."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from property_examples import examples
from training_contexts import MemoryWorld, job_spec, record_of

from headrace.jobs.spec import CleanPolicy, JobKind, JobSpec, Role, RoleName
from headrace.jobs.views import JobPhase
from headrace.local.jobs.job_records import InstanceState, Stage
from headrace.local.jobs.job_views import view_of
from headrace.local.jobs.observed_state import Start


def running(spec: JobSpec | None = None) -> MemoryWorld:
    context = MemoryWorld(record_of(spec or job_spec()))
    context.look_until(Stage.RUNNING)
    return context


def test_workers_are_up_before_the_launcher_begins() -> None:
    context = MemoryWorld(record_of(job_spec()))
    started: list[str] = []
    for _ in range(20):
        started += [step.name for step in context.reconcile() if isinstance(step, Start)]
        if len(started) < 3:
            assert view_of(context.record).phase is JobPhase.PENDING
        context.come_up()
    assert [name.split("-")[1] for name in started] == ["worker", "worker", "launcher"]
    assert context.record.started is not None


def test_a_launcher_that_succeeds_ends_the_job_and_frees_its_data() -> None:
    context = running()
    context.end(context.chief, 0)
    context.look_until(Stage.ENDED)
    view = view_of(context.record)
    assert (view.phase, view.exit_code, view.reason) == (JobPhase.SUCCEEDED, 0, "")
    assert {each.status for each in view.instances} == {"SUCCEEDED"}
    assert not context.held


@pytest.mark.parametrize("kind", list(JobKind))
def test_a_chief_that_fails_fails_the_job_with_its_code(kind: JobKind) -> None:
    context = running(job_spec(kind=kind))
    context.end(context.chief, 7)
    context.look_until(Stage.ENDED)
    view = view_of(context.record)
    assert (view.phase, view.exit_code) == (JobPhase.FAILED, 7)
    assert view.reason.endswith("exited with 7")
    assert [each.status for each in view.instances].count("TERMINATED") == 2


def test_a_killed_worker_fails_the_job_and_what_it_left_is_ended_first() -> None:
    context = running()
    context.kill("job-worker-1")
    context.look_until(Stage.ENDED)
    assert context.record.find("job-worker-1").reason == "was killed"  # type: ignore[union-attr]
    assert context.record.reason == "job-worker-1 on node-3 was killed"
    assert not any(state.runs for state in context.sights.values())


@pytest.mark.parametrize("names", [("chief", "worker"), ("worker", "chief")])
def test_a_worker_without_memory_explains_why_its_launcher_failed(names: tuple[str, str]) -> None:
    """Whoever of the two is seen to have ended first."""
    context = running()
    instances = {"chief": context.chief, "worker": "job-worker-1"}
    for name in names:
        context.end(instances[name], 137, starved=name == "worker")
        context.reconcile()
    context.look_until(Stage.ENDED)
    view = view_of(context.record)
    assert view.phase is JobPhase.FAILED
    assert view.reason == "job-worker-1 on node-3 went over its memory"


def test_a_lost_node_fails_the_job() -> None:
    context = running()
    context.nodes.discard("node-3")
    context.look_until(Stage.ENDED)
    assert "node-3 is gone" in context.record.reason


def test_a_node_that_goes_before_anything_began_costs_nothing() -> None:
    context = MemoryWorld(record_of(job_spec()), unmounted="being mounted")
    context.look_until(Stage.PREPARING)
    context.nodes.discard("node-3")
    context.unmounted = ""
    context.look_until(Stage.RUNNING)
    assert set(context.record.nodes) == {"node-1", "node-2"}
    assert context.record.attempt == 1


def test_what_it_waits_for_is_said() -> None:
    context = MemoryWorld(record_of(job_spec()), cold="cached to 3 %", unmounted="being mounted")
    context.reconcile()
    assert context.record.reason == "cached to 3 %"
    context.cold, context.nodes = "", set()
    context.reconcile()
    assert context.record.reason == "there is no node"
    context.nodes = {"node-1"}
    context.reconcile()
    context.reconcile()
    assert context.record.reason == "being mounted"
    assert view_of(context.record).phase is JobPhase.PENDING


def test_a_job_that_lost_its_node_before_it_began_does_not_hold_what_it_waits_for() -> None:
    context = MemoryWorld(record_of(job_spec()), unmounted="being mounted")
    context.look_until(Stage.PREPARING)
    context.reconcile()
    assert context.held
    context.cold = "dataset default/imagenet is being deleted"
    context.nodes.discard("node-3")
    context.look_until(Stage.WAITING)
    context.reconcile()
    assert (context.record.reason, context.held) == (context.cold, False)


def test_tries_are_counted_wait_longer_each_time_and_have_launchers_of_their_own() -> None:
    context = running(job_spec(retries=2))
    pauses = []
    for attempt in (1, 2, 3):
        assert context.record.attempt == attempt
        context.end(context.chief, 1)
        if attempt < 3:
            context.look_until(Stage.PAUSED)
            assert context.record.paused_until is not None
            pauses.append((context.record.paused_until - context.now).total_seconds())
            context.now = context.record.paused_until
            context.look_until(Stage.RUNNING)
    context.look_until(Stage.ENDED)
    assert 0.5 < pauses[0] <= 1 < pauses[1] <= 2
    assert len(context.launchers) == 3


def test_an_instance_that_never_begins_is_given_up() -> None:
    context = MemoryWorld(record_of(job_spec()))
    for _ in range(40):
        context.reconcile()
        context.sights = {name: each for name, each in context.sights.items() if not each.runs}
    assert context.record.stage is Stage.ENDED
    assert "cannot be started" in context.record.reason


@pytest.mark.parametrize(
    ("limits", "started", "said"),
    [
        ({"starting_timeout_s": 60}, False, "it did not run within 60 s: being mounted"),
        ({"running_timeout_s": 60, "retries": 5}, True, "it ran for longer than 60 s"),
    ],
)
def test_a_job_that_is_out_of_time_fails_for_good(limits: dict[str, int], started: bool, said: str) -> None:
    context = MemoryWorld(record_of(job_spec(**limits)), unmounted="" if started else "being mounted")
    context.look_until(Stage.RUNNING if started else Stage.PREPARING)
    context.reconcile()
    context.now += timedelta(seconds=61)
    context.look_until(Stage.ENDED)
    assert (view_of(context.record).phase, context.record.reason) == (JobPhase.FAILED, said)


def test_an_ended_job_goes_after_its_time() -> None:
    context = running(job_spec(ttl_after_finished_s=10))
    context.end(context.chief, 0)
    context.look_until(Stage.ENDED)
    context.reconcile()
    assert not context.is_gone
    context.now += timedelta(seconds=11)
    context.reconcile()
    context.reconcile()
    assert context.is_gone


def test_with_no_cleaning_workers_go_on_with_their_data_until_the_job_is_deleted() -> None:
    context = running(job_spec(clean_policy=CleanPolicy.NONE))
    context.end(context.chief, 0)
    context.look_until(Stage.ENDED)
    context.reconcile()
    assert context.held
    assert context.record.find("job-worker-0").state is InstanceState.RUNNING  # type: ignore[union-attr]
    context.record = context.record.changed(is_leaving=True)
    context.reconcile()
    context.reconcile()
    assert (context.is_gone, context.held) == (True, False)


@pytest.mark.parametrize("stage", [Stage.WAITING, Stage.PREPARING, Stage.STARTING, Stage.RUNNING])
def test_a_job_is_deleted_at_any_time(stage: Stage) -> None:
    context = MemoryWorld(record_of(job_spec()))
    context.look_until(stage)
    context.record = context.record.changed(is_leaving=True)
    context.reconcile()
    context.reconcile()
    assert context.is_gone
    assert not context.held
    assert not any(state.runs for state in context.sights.values())


def test_tensorflow_may_wait_for_all_workers_and_not_for_its_servers() -> None:
    roles = (
        Role(name=RoleName.WORKER, replicas=2),
        Role(name=RoleName.PS, replicas=1),
        Role(name=RoleName.EVALUATOR, replicas=1),
    )
    context = running(job_spec(kind=JobKind.TF, roles=roles, success_policy="AllWorkers"))
    context.end("job-worker-0", 0)
    context.end("job-evaluator-0", 1)
    context.reconcile()
    assert context.record.stage is Stage.RUNNING
    context.end("job-worker-1", 0)
    context.look_until(Stage.ENDED)
    assert view_of(context.record).phase is JobPhase.SUCCEEDED


class JobModel(RuleBasedStateMachine):
    """Anything may be killed at any moment, the supervisor between writing and doing among it."""

    @initialize(retries=st.integers(0, 2), kind=st.sampled_from(list(JobKind)))
    def submit(self, retries: int, kind: JobKind) -> None:
        self.context = MemoryWorld(record_of(job_spec(kind=kind, retries=retries)))

    @rule(dies=st.booleans(), seconds=st.sampled_from([0.1, 3.0]))
    def reconcile(self, dies: bool, seconds: float) -> None:
        if not self.context.is_gone:
            self.context.reconcile(dies_before_steps=dies)
            self.context.now += timedelta(seconds=seconds)

    @rule()
    def come_up(self) -> None:
        self.context.come_up()

    @rule(which=st.integers(0, 2), code=st.sampled_from([0, 1, None]))
    def end(self, which: int, code: int | None) -> None:
        names = sorted(self.context.sights)
        if names and code is None:
            self.context.kill(names[which % len(names)])
        elif names:
            self.context.end(names[which % len(names)], code or 0)

    @rule(node=st.sampled_from(["node-2", "node-3"]), comes=st.booleans())
    def node(self, node: str, comes: bool) -> None:
        (self.context.nodes.add if comes else self.context.nodes.discard)(node)

    @rule()
    def delete(self) -> None:
        self.context.record = self.context.record.changed(is_leaving=True)

    @invariant()
    def there_is_one_launcher_at_most(self) -> None:
        assert len(self.context.running_launchers) <= 1

    @invariant()
    def an_ended_job_has_nothing(self) -> None:
        if self.context.record.stage is Stage.ENDED:
            assert not any(state.runs for state in self.context.sights.values())
            assert not self.context.held

    def teardown(self) -> None:
        """Whatever was, a program that ends brings the job to its end."""
        for _ in range(200):
            if self.context.is_gone or self.context.record.stage is Stage.ENDED:
                return
            self.context.reconcile()
            self.context.come_up()
            for name in list(self.context.sights) if self.context.record.stage is Stage.RUNNING else []:
                self.context.end(name, 0)
            self.context.now += timedelta(seconds=5)
        raise AssertionError(f"the job stays {self.context.record.stage}")


TestJobModel = JobModel.TestCase
TestJobModel.settings = settings(max_examples=examples(40, in_a_soak=80), stateful_step_count=40)

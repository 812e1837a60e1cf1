"""What is done for a job, step by step; and that it comes to its end whoever dies when."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from training_worlds import MemoryWorld, job_spec, record_of

from headrace.jobs.spec import CleanPolicy, JobKind, JobSpec, Role, RoleName
from headrace.jobs.views import JobPhase
from headrace.local.training.records import InstanceState, Stage
from headrace.local.training.sights import Start
from headrace.local.training.viewing import view_of


def running(spec: JobSpec | None = None) -> MemoryWorld:
    world = MemoryWorld(record_of(spec or job_spec()))
    world.look_until(Stage.RUNNING)
    return world


def test_workers_are_up_before_the_launcher_begins() -> None:
    world = MemoryWorld(record_of(job_spec()))
    started: list[str] = []
    for _ in range(20):
        started += [step.name for step in world.look() if isinstance(step, Start)]
        if len(started) < 3:
            assert view_of(world.record).phase is JobPhase.PENDING
        world.come_up()
    assert [name.split("-")[1] for name in started] == ["worker", "worker", "launcher"]
    assert world.record.started is not None


def test_a_launcher_that_succeeds_ends_the_job_and_frees_its_data() -> None:
    world = running()
    world.end(world.chief, 0)
    world.look_until(Stage.ENDED)
    view = view_of(world.record)
    assert (view.phase, view.exit_code, view.reason) == (JobPhase.SUCCEEDED, 0, "")
    assert {each.status for each in view.instances} == {"SUCCEEDED"}
    assert not world.held


@pytest.mark.parametrize("kind", list(JobKind))
def test_a_chief_that_fails_fails_the_job_with_its_code(kind: JobKind) -> None:
    world = running(job_spec(kind=kind))
    world.end(world.chief, 7)
    world.look_until(Stage.ENDED)
    view = view_of(world.record)
    assert (view.phase, view.exit_code) == (JobPhase.FAILED, 7)
    assert view.reason.endswith("exited with 7")
    assert [each.status for each in view.instances].count("TERMINATED") == 2


def test_a_killed_worker_fails_the_job_and_what_it_left_is_ended_first() -> None:
    world = running()
    world.kill("job-worker-1")
    world.look_until(Stage.ENDED)
    assert world.record.find("job-worker-1").reason == "was killed"  # type: ignore[union-attr]
    assert world.record.reason == "job-worker-1 on node-3 was killed"
    assert not any(sight.runs for sight in world.sights.values())


@pytest.mark.parametrize("names", [("chief", "worker"), ("worker", "chief")])
def test_a_worker_without_memory_explains_why_its_launcher_failed(names: tuple[str, str]) -> None:
    """Whoever of the two is seen to have ended first."""
    world = running()
    instances = {"chief": world.chief, "worker": "job-worker-1"}
    for name in names:
        world.end(instances[name], 137, starved=name == "worker")
        world.look()
    world.look_until(Stage.ENDED)
    view = view_of(world.record)
    assert view.phase is JobPhase.FAILED
    assert view.reason == "job-worker-1 on node-3 went over its memory"


def test_a_lost_node_fails_the_job() -> None:
    world = running()
    world.nodes.discard("node-3")
    world.look_until(Stage.ENDED)
    assert "node-3 is gone" in world.record.reason


def test_a_node_that_goes_before_anything_began_costs_nothing() -> None:
    world = MemoryWorld(record_of(job_spec()), unmounted="being mounted")
    world.look_until(Stage.PREPARING)
    world.nodes.discard("node-3")
    world.unmounted = ""
    world.look_until(Stage.RUNNING)
    assert set(world.record.nodes) == {"node-1", "node-2"}
    assert world.record.attempt == 1


def test_what_it_waits_for_is_said() -> None:
    world = MemoryWorld(record_of(job_spec()), cold="cached to 3 %", unmounted="being mounted")
    world.look()
    assert world.record.reason == "cached to 3 %"
    world.cold, world.nodes = "", set()
    world.look()
    assert world.record.reason == "there is no node"
    world.nodes = {"node-1"}
    world.look()
    world.look()
    assert world.record.reason == "being mounted"
    assert view_of(world.record).phase is JobPhase.PENDING


def test_tries_are_counted_wait_longer_each_time_and_have_launchers_of_their_own() -> None:
    world = running(job_spec(retries=2))
    pauses = []
    for attempt in (1, 2, 3):
        assert world.record.attempt == attempt
        world.end(world.chief, 1)
        if attempt < 3:
            world.look_until(Stage.PAUSED)
            assert world.record.paused_until is not None
            pauses.append((world.record.paused_until - world.now).total_seconds())
            world.now = world.record.paused_until
            world.look_until(Stage.RUNNING)
    world.look_until(Stage.ENDED)
    assert 0.5 < pauses[0] <= 1 < pauses[1] <= 2
    assert len(world.launchers) == 3


def test_an_instance_that_never_begins_is_given_up() -> None:
    world = MemoryWorld(record_of(job_spec()))
    for _ in range(40):
        world.look()
        world.sights = {name: each for name, each in world.sights.items() if not each.runs}
    assert world.record.stage is Stage.ENDED
    assert "cannot be started" in world.record.reason


@pytest.mark.parametrize(
    ("limits", "started", "said"),
    [
        ({"starting_timeout_s": 60}, False, "it did not run within 60 s: being mounted"),
        ({"running_timeout_s": 60, "retries": 5}, True, "it ran for longer than 60 s"),
    ],
)
def test_a_job_that_is_out_of_time_fails_for_good(limits: dict[str, int], started: bool, said: str) -> None:
    world = MemoryWorld(record_of(job_spec(**limits)), unmounted="" if started else "being mounted")
    world.look_until(Stage.RUNNING if started else Stage.PREPARING)
    world.look()
    world.now += timedelta(seconds=61)
    world.look_until(Stage.ENDED)
    assert (view_of(world.record).phase, world.record.reason) == (JobPhase.FAILED, said)


def test_an_ended_job_goes_after_its_time() -> None:
    world = running(job_spec(ttl_after_finished_s=10))
    world.end(world.chief, 0)
    world.look_until(Stage.ENDED)
    world.look()
    assert not world.is_gone
    world.now += timedelta(seconds=11)
    world.look()
    world.look()
    assert world.is_gone


def test_with_no_cleaning_workers_go_on_with_their_data_until_the_job_is_deleted() -> None:
    world = running(job_spec(clean_policy=CleanPolicy.NONE))
    world.end(world.chief, 0)
    world.look_until(Stage.ENDED)
    world.look()
    assert world.held
    assert world.record.find("job-worker-0").state is InstanceState.RUNNING  # type: ignore[union-attr]
    world.record = world.record.changed(is_leaving=True)
    world.look()
    world.look()
    assert (world.is_gone, world.held) == (True, False)


@pytest.mark.parametrize("stage", [Stage.WAITING, Stage.PREPARING, Stage.STARTING, Stage.RUNNING])
def test_a_job_is_deleted_at_any_time(stage: Stage) -> None:
    world = MemoryWorld(record_of(job_spec()))
    world.look_until(stage)
    world.record = world.record.changed(is_leaving=True)
    world.look()
    world.look()
    assert world.is_gone
    assert not world.held
    assert not any(sight.runs for sight in world.sights.values())


def test_tensorflow_may_wait_for_all_workers_and_not_for_its_servers() -> None:
    roles = (
        Role(name=RoleName.WORKER, replicas=2),
        Role(name=RoleName.PS, replicas=1),
        Role(name=RoleName.EVALUATOR, replicas=1),
    )
    world = running(job_spec(kind=JobKind.TF, roles=roles, success_policy="AllWorkers"))
    world.end("job-worker-0", 0)
    world.end("job-evaluator-0", 1)
    world.look()
    assert world.record.stage is Stage.RUNNING
    world.end("job-worker-1", 0)
    world.look_until(Stage.ENDED)
    assert view_of(world.record).phase is JobPhase.SUCCEEDED


class JobModel(RuleBasedStateMachine):
    """Anything may be killed at any moment, the supervisor between writing and doing among it."""

    @initialize(retries=st.integers(0, 2), kind=st.sampled_from(list(JobKind)))
    def submit(self, retries: int, kind: JobKind) -> None:
        self.world = MemoryWorld(record_of(job_spec(kind=kind, retries=retries)))

    @rule(dies=st.booleans(), seconds=st.sampled_from([0.1, 3.0]))
    def look(self, dies: bool, seconds: float) -> None:
        if not self.world.is_gone:
            self.world.look(dies_before_steps=dies)
            self.world.now += timedelta(seconds=seconds)

    @rule()
    def come_up(self) -> None:
        self.world.come_up()

    @rule(which=st.integers(0, 2), code=st.sampled_from([0, 1, None]))
    def end(self, which: int, code: int | None) -> None:
        names = sorted(self.world.sights)
        if names and code is None:
            self.world.kill(names[which % len(names)])
        elif names:
            self.world.end(names[which % len(names)], code or 0)

    @rule(node=st.sampled_from(["node-2", "node-3"]), comes=st.booleans())
    def node(self, node: str, comes: bool) -> None:
        (self.world.nodes.add if comes else self.world.nodes.discard)(node)

    @rule()
    def delete(self) -> None:
        self.world.record = self.world.record.changed(is_leaving=True)

    @invariant()
    def there_is_one_launcher_at_most(self) -> None:
        assert len(self.world.running_launchers) <= 1

    @invariant()
    def an_ended_job_has_nothing(self) -> None:
        if self.world.record.stage is Stage.ENDED:
            assert not any(sight.runs for sight in self.world.sights.values())
            assert not self.world.held

    def teardown(self) -> None:
        """Whatever was, a program that ends brings the job to its end."""
        for _ in range(200):
            if self.world.is_gone or self.world.record.stage is Stage.ENDED:
                return
            self.world.look()
            self.world.come_up()
            for name in list(self.world.sights) if self.world.record.stage is Stage.RUNNING else []:
                self.world.end(name, 0)
            self.world.now += timedelta(seconds=5)
        raise AssertionError(f"the job stays {self.world.record.stage}")


TestJobModel = JobModel.TestCase
TestJobModel.settings = settings(max_examples=80, stateful_step_count=40)

"""A world in memory that jobs of one machine are decided in: processes that live, end and are killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.jobs.spec import JobKind, JobSpec, Resources, Role, RoleName
from headrace.local.jobs.job_records import JobRecord, Stage
from headrace.local.jobs.observed_state import (
    End,
    Forget,
    Hold,
    InstanceObservation,
    ObservedState,
    ProcessState,
    Release,
    Start,
    Step,
)
from headrace.local.jobs.replicas import replicas_of
from headrace.local.jobs.scheduler import Placement
from headrace.local.jobs.state_machine import next_step

BEGUN = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def job_spec(*, kind: JobKind = JobKind.MPI, workers: int = 2, **fields: Any) -> JobSpec:
    """A job of some workers, with all else as it is wished."""
    first = {JobKind.MPI: RoleName.LAUNCHER, JobKind.PYTORCH: RoleName.MASTER, JobKind.TF: RoleName.CHIEF}
    own: dict[str, Any] = {
        "name": "job",
        "namespace": "default",
        "kind": kind,
        "command": ("true",),
        "roles": (
            Role(name=first[kind], replicas=1),
            Role(name=RoleName.WORKER, replicas=workers, resources=Resources(gpus=2)),
        ),
    }
    return JobSpec(**{**own, **fields})


def record_of(spec: JobSpec) -> JobRecord:
    """The job as it was submitted."""
    return JobRecord(uid="0123456789abcdef", spec=spec, created=BEGUN)


@dataclass
class MemoryWorld:
    """One job and its processes. Looks happen when they are asked for; a supervisor may die between any two lines."""

    record: JobRecord
    now: datetime = BEGUN
    sights: dict[str, InstanceObservation] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=lambda: {"node-1", "node-2", "node-3"})
    held: bool = False
    unmounted: str = ""
    cold: str = ""
    is_gone: bool = False
    launchers: set[str] = field(default_factory=set)
    """Every launcher that ever began."""

    def reconcile(self, *, dies_before_steps: bool = False) -> tuple[Step, ...]:
        """One look, and its steps, unless the supervisor dies before it takes them."""
        decision = next_step(self.record, self.observed(), self.now)
        self.record = decision.record
        if not dies_before_steps:
            for step in decision.steps:
                self.take(step)
        return decision.steps

    def look_until(self, stage: Stage, *, most: int = 50) -> None:
        """Looks until the job is there; processes come up by themselves meanwhile."""
        for _ in range(most):
            if self.record.stage is stage:
                return
            self.reconcile()
            self.come_up()
            self.now += timedelta(seconds=0.1)
        raise AssertionError(f"the job stays {self.record.stage}")

    def observed(self) -> ObservedState:
        """What a look sees."""
        replicas = replicas_of(self.record.spec, self.record.uid, self.record.attempt + 1)
        ready = sorted(self.nodes)
        placed = (
            {replica.name: ready[number % len(ready)] for number, replica in enumerate(replicas)}
            if ready
            else {}
        )
        return ObservedState(
            instances=dict(self.sights),
            ready_nodes=frozenset(self.nodes),
            cold=self.cold,
            placement=Placement(placed) if ready else Placement(problem="there is no node"),
            unmounted=self.unmounted,
            is_released=not self.held,
        )

    def take(self, step: Step) -> None:
        """Does what was decided."""
        match step:
            case Hold():
                self.held = bool(self.record.instances)
            case Start(name):
                assert not self.sights.get(name, InstanceObservation()).runs, f"{name} runs already"
                self.sights[name] = InstanceObservation(ProcessState.STARTING)
                if "launcher" in name:
                    self.launchers.add(name)
            case End(names):
                for name in names:
                    state = self.sights[name]
                    gone = state.state if state.state is ProcessState.ENDED else ProcessState.LOST
                    self.sights[name] = InstanceObservation(gone, state.exit_code, state.message)
            case Release():
                assert not any(state.runs for state in self.sights.values()), "released under a process"
                self.held = False
            case Forget():
                self.is_gone = True
        names = {each.name for each in self.record.instances}
        # Another attempt does not take what the one before has said for its own.
        if self.record.stage is Stage.PREPARING:
            self.sights = {name: each for name, each in self.sights.items() if each.runs and name in names}

    def come_up(self) -> None:
        """Programs begin."""
        for name, state in self.sights.items():
            if state.state is ProcessState.STARTING:
                self.sights[name] = InstanceObservation(ProcessState.UP)

    def end(self, name: str, code: int, *, starved: bool = False) -> None:
        """A program ends by itself, or since the kernel left it no memory."""
        if self.sights.get(name, InstanceObservation()).runs:
            message = "went over its memory" if starved else f"exited with {code}" if code else ""
            self.sights[name] = InstanceObservation(
                ProcessState.ENDED, code, message, is_out_of_memory=starved
            )

    def kill(self, name: str) -> None:
        """A process is killed; what it had started goes on."""
        if self.sights.get(name, InstanceObservation()).runs:
            self.sights[name] = InstanceObservation(ProcessState.LOST, has_leftovers=True)

    @property
    def running_launchers(self) -> list[str]:
        """Launchers of which something runs."""
        return [name for name, state in self.sights.items() if "launcher" in name and state.runs]

    @property
    def chief(self) -> str:
        """The name of the instance whose end is the job's."""
        assert self.record.chief is not None
        return self.record.chief.name

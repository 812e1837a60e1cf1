"""One dataset of the cluster in one pass: its objects in the mirror, by the calls that a pass makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from headrace.api.kinds import Operation
from headrace.errors import HeadraceError
from headrace.kube.client import KubeClient
from headrace.kube.faults import ConflictError
from headrace.operator.desired_state import DesiredState
from headrace.operator.executor import Executor
from headrace.operator.masters import Masters
from headrace.operator.mirror import Mirror
from headrace.operator.observer import Observation, observe, users_now
from headrace.operator.operation_inputs import declared_for, operation_inputs
from headrace.operator.operations.job_driver import Task
from headrace.operator.reference_index import users_of
from headrace.operator.reservations import Reservations
from headrace.operator.role_states import AllRoleStates
from headrace.operator.settings import OperatorSettings
from headrace.operator.status_writer import StatusWriter
from headrace.operator.user_trouble import user_events
from headrace.operator.volume_controller import VolumeMaker
from headrace.plan.observed import ConsumerFacts, Observed, OtherWorker
from headrace.plan.operation_inputs import JobFacts, OperationInputs
from headrace.plan.outcome import Plan
from headrace.plan.volume import Volume
from headrace.reconcile.faults import Faults
from headrace.reconcile.world import Declarations, Statement

_STARTING_S = 2.0


@dataclass(slots=True)
class ClusterBackend:
    """The parts that all passes share. Used from one event loop, by the leader alone."""

    client: KubeClient
    masters: Masters
    mirror: Mirror
    settings: OperatorSettings
    role_states: AllRoleStates
    reservations: Reservations
    status_writer: StatusWriter

    async def begin(self, key: tuple[str, str], now: datetime) -> DatasetWorld:
        """The world of one pass."""
        return DatasetWorld(self, DesiredState(self.mirror, key).as_far_as_understood, now)


class DatasetWorld:
    """One dataset in one pass."""

    outdated: tuple[type[Exception], ...] = (ConflictError,)
    starting_s: float = _STARTING_S

    def __init__(self, backend: ClusterBackend, desired: DesiredState, now: datetime) -> None:
        self._backend, self._desired, self._now = backend, desired, now
        self._observation: Observation | None = None

    @cached_property
    def declarations(self) -> Declarations:
        """The declarations when the pass began."""
        desired, runtime = self._desired, self._desired.runtime
        return Declarations(
            desired.title,
            desired.declared,
            tuple(each for each in desired.runtimes.values() if each is not runtime),
            desired.operations,
            tuple(desired.refused),
            desired.is_leaving,
        )

    async def observe(self) -> Observed:
        """Everything that is known at this moment, but for other datasets' workers."""
        backend, desired = self._backend, self._desired
        states = backend.role_states.of(desired.title)
        self._observation = await observe(
            desired, backend.settings, states, self._now, backend.masters.known_token
        )
        return self._observation.observed

    async def users(self) -> tuple[ConsumerFacts, ...]:
        """The users of the dataset, asked of the API server: what the watch tells of may come later."""
        users = await users_now(self._desired, self._backend.client)
        self._observation = replace(self._seen, observed=replace(self._seen.observed, users=users))
        return users

    def others(self) -> Mapping[str, tuple[OtherWorker, ...]]:
        """Workers of other datasets, by node."""
        return self._backend.reservations.others(self._desired.title)

    def reserve(self, plan: Plan | None) -> None:
        """Notes the nodes that were planned for its workers."""
        if plan is None:
            self._backend.reservations.forget(self._desired.title)
        else:
            self._backend.reservations.note(self._desired.title, plan)

    async def clear(self) -> bool:
        """Takes away the objects and files of a dataset that has no roles any more."""
        is_clear = await self._executor.cleanup.clear()
        if is_clear and self._desired.declared is None:
            self._backend.role_states.forget(self._desired.title)
        return is_clear

    async def follow_volume(self, volume: Volume | None, *, in_use: bool, closes: bool) -> None:
        """Makes the volume and its claim, or takes them away."""
        maker = VolumeMaker(self._backend.client, self._backend.mirror)
        await maker.follow(self._desired.key, volume, in_use=in_use, closes=closes)

    async def write(self, statements: Iterable[Statement]) -> None:
        """Says these, one after the other."""
        faults, writer = Faults(), self._backend.status_writer
        said = list(statements)
        for each in said:
            with faults.part():
                await writer.write(each)
        for each in said:
            # After the status: that it is another object by then costs no more than a pass.
            with suppress(HeadraceError):
                await writer.set_owner_reference(each.about, self._desired.dataset)
        faults.raise_all()

    async def take(self, plan: Plan) -> float | None:
        """Takes all steps that may be taken now. Watches tell what comes of them."""
        event = await self._executor.execute(plan)
        content = self._backend.mirror.get("Dataset", *self._desired.key)
        if event is not None and content is not None:
            await self._backend.status_writer.record_event(content, "Dataset", event)
        return None

    def inputs(self, operation: Operation, job: JobFacts | None, hindrance: str) -> OperationInputs:
        """The inputs of an operation's plan."""
        return operation_inputs(operation, self._backend.mirror, self._seen.observed, job, hindrance)

    def task(self, operation: Operation, run: str) -> Task:
        """A run of an operation, for its driver."""
        datasets, _ = declared_for(operation, self._backend.mirror)
        return Task(operation, run, self._desired, self._seen, datasets)

    async def delete(self, operation: Operation) -> None:
        """Deletes an operation that nobody needs any more."""
        await self._backend.client.delete(operation.kind, operation.namespace, operation.name)

    async def finish(self) -> None:
        """Tells pods that use the dataset what keeps them from beginning."""
        for pod, event in user_events(users_of(self._backend.mirror, self._desired.key), self._desired.key):
            await self._backend.status_writer.record_event(pod, "Pod", event)

    @property
    def _seen(self) -> Observation:
        if self._observation is None:
            raise RuntimeError("a pass observes before it acts")
        return self._observation

    @property
    def _executor(self) -> Executor:
        return Executor(self._backend.client, self._backend.masters, self._desired, self._seen)

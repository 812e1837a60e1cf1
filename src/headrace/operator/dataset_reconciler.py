"""One pass over a dataset: read what is declared, see what runs, plan, say, do. Between passes nothing is remembered
that could not be found out again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from headrace.api.kinds import RUNTIMES, kind_of
from headrace.api.names import FINALIZERS
from headrace.errors import ConfigError, HeadraceError
from headrace.kube.client import KubeClient
from headrace.kube.faults import ConflictError
from headrace.operator.desired_state import DesiredState
from headrace.operator.executor import Executor
from headrace.operator.leaving import is_leaving
from headrace.operator.masters import Masters
from headrace.operator.mirror import Mirror
from headrace.operator.observer import Observation, observe
from headrace.operator.operation_reconciler import OperationReconciler
from headrace.operator.reference_index import users_of
from headrace.operator.reservations import Reservations
from headrace.operator.role_states import AllRoleStates
from headrace.operator.settings import OperatorSettings
from headrace.operator.status_writer import StatusWriter
from headrace.operator.user_trouble import user_events
from headrace.operator.volume_controller import VolumeMaker
from headrace.plan.dataset_events import Event, EventType
from headrace.plan.declared import Declared
from headrace.plan.observed import Observed, RoleState
from headrace.plan.outcome import Finalizers, Plan
from headrace.plan.plan import plan, plan_spare
from headrace.plan.reasons import Reason
from headrace.plan.steps import teardown_steps
from headrace.work_queue import ReconcileResult

_log = logging.getLogger("headrace.operator")

_STARTING_S = 2.0
_AGAIN_S = 1.0
_AFTER_FAULT_S = 5.0
_IN_USE_S = 10.0

_NOT_TAKEN = "StepRefused"


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class DatasetReconciler:
    """Brings datasets in line with their declarations. Used from one event loop, by the leader alone."""

    client: KubeClient
    masters: Masters
    mirror: Mirror
    settings: OperatorSettings
    role_states: AllRoleStates
    reservations: Reservations
    status_writer: StatusWriter
    operation_reconciler: OperationReconciler
    clock: Callable[[], datetime] = _utc_now

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        """One pass."""
        now = self.clock().replace(microsecond=0)
        try:
            desired = await self._understood(DesiredState(self.mirror, (namespace, name)), now)
            return await self._reconcile(desired, now)
        except ConflictError as error:
            # Somebody wrote in between; what they wrote is on its way to the mirror.
            _log.debug("dataset/%s/%s: %s", namespace, name, error)
            return ReconcileResult(_AGAIN_S)

    async def close(self) -> None:
        """Pods go on; what is being ordered is ordered again by the next leader."""
        await self.operation_reconciler.close()

    @property
    def _volumes(self) -> VolumeMaker:
        return VolumeMaker(self.client, self.mirror)

    async def _understood(self, desired: DesiredState, now: datetime) -> DesiredState:
        """The desired state; invalid declarations are refused and left out."""
        try:
            _ = desired.declared
        except ConfigError as error:
            await self._refuse(desired, error, now)
            return desired.as_far_as_understood
        return desired

    async def _reconcile(self, desired: DesiredState, now: datetime) -> ReconcileResult:
        # Before the master is asked: what a load says to be cached is in the status that is written first.
        loads = await self.operation_reconciler.loads(desired)
        observation = await observe(
            desired, self.settings, self.role_states.of(desired.title), now, self.masters.known_token
        )
        executor = Executor(self.client, self.masters, desired, observation)
        faults: list[HeadraceError] = []
        requeues: list[float | None] = []
        # Where something makes no sense, what runs goes on as it is, unless all is to go anyway.
        if desired.is_leaving or not desired.lenient:
            with _noting(faults):
                requeues.append(
                    await self._serve(
                        desired, desired.declared, observation, executor, now=now, faults=faults
                    )
                )
        with _noting(faults):
            requeues.append(
                await self.operation_reconciler.reconcile(
                    desired, observation, loads, self.status_writer, now
                )
            )
        for pod, event in user_events(users_of(self.mirror, desired.key), desired.key):
            await self.status_writer.record_event(pod, "Pod", event)
        for kind, content, error in desired.refused:
            with _noting(faults):
                if is_leaving(content):
                    await self.status_writer.remove_finalizer(kind, content)
                else:
                    await self.status_writer.write_refusal(kind, content, error, now)
        conflicts = [fault for fault in faults if isinstance(fault, ConflictError)]
        if conflicts:
            raise conflicts[0]
        for fault in faults:
            _log.warning("dataset/%s: %s", desired.title, fault)
        if faults:
            requeues = [_AFTER_FAULT_S]
        if any(facts.state is RoleState.STARTING for facts in observation.observed.roles):
            requeues.append(_STARTING_S)
        wanted = [requeue_s for requeue_s in requeues if requeue_s is not None]
        return ReconcileResult(min(wanted) if wanted else None, is_complete=not faults)

    async def _serve(
        self,
        desired: DesiredState,
        declared: Declared | None,
        observation: Observation,
        executor: Executor,
        *,
        now: datetime,
        faults: list[HeadraceError],
    ) -> float | None:
        """Dataset and runtime a step further; seconds until the next. What one part cannot do stops no other."""
        if declared is None:
            return await self._abandon(desired, observation.observed, executor)
        # Nothing is awaited between seeing what the others have and taking one's own.
        observed = replace(observation.observed, others=self.reservations.others(desired.title))
        planned = plan(declared, observed, now)
        self.reservations.note(desired.title, planned)
        is_over = not (observed.roles or planned.roles or planned.holds or observed.users)
        if is_over and not await executor.cleanup.clear():
            # Nothing of it is left but files, and those go before the last word is said.
            await self._write_statuses(desired, _not_yet_gone(desired, planned), observed, now, faults)
            return _STARTING_S
        await self._write_statuses(desired, planned, observed, now, faults)
        if is_over:
            with _noting(faults):
                await self._remove_finalizers(desired)
        if any(isinstance(fault, ConflictError) for fault in faults):
            return None
        try:
            if (event := await executor.execute(planned)) and desired.dataset:
                await self._record_dataset_event(desired, event)
        except ConflictError as error:
            faults.append(error)
        except HeadraceError as error:
            faults.append(error)
            await self._record_event(desired, _NOT_TAKEN, error)
        return planned.requeue_after_s

    async def _abandon(self, desired: DesiredState, observed: Observed, executor: Executor) -> float | None:
        """What runs for a dataset that is not declared any more ends, once nobody reads it."""
        self.reservations.forget(desired.title)
        if observed.users:
            return _IN_USE_S
        if not observed.roles:
            self.role_states.forget(desired.title)
            if not await executor.cleanup.clear():
                return _STARTING_S
            await self._volumes.follow(desired.key, None, in_use=bool(observed.users))
            await self._remove_finalizers(desired)
            return None
        await executor.end(teardown_steps(observed).stop)
        return _AGAIN_S

    async def _write_statuses(
        self,
        desired: DesiredState,
        planned: Plan,
        observed: Observed,
        now: datetime,
        faults: list[HeadraceError],
    ) -> None:
        with _noting(faults) as volume:
            await self._volumes.follow(
                desired.key, planned.volume, in_use=bool(observed.users), closes=planned.closes
            )
        if volume.fault is not None:
            planned = _not_yet_gone(desired, planned)
        with _noting(faults):
            await self._write_dataset_status(desired, planned)
        with _noting(faults):
            await self._write_runtime_statuses(desired, planned, now)
        if desired.dataset is not None:
            for each in (*desired.runtimes.values(), *desired.operations):
                with _noting([]):
                    await self.status_writer.set_owner_reference(each, desired.dataset)

    async def _write_dataset_status(self, desired: DesiredState, planned: Plan) -> None:
        if desired.dataset is not None:
            finalizers = planned.finalizers.dataset
            await self.status_writer.write_status(
                desired.dataset, planned.dataset_status, planned.events, finalizers
            )

    async def _write_runtime_statuses(self, desired: DesiredState, planned: Plan, now: datetime) -> None:
        runtime = desired.runtime
        if runtime is None:
            return
        await self.status_writer.write_status(
            runtime, planned.runtime_status, planned.events, planned.finalizers.runtime
        )
        for spare in desired.runtimes.values():
            if spare is not runtime:
                other = plan_spare(spare, runtime, now)
                await self.status_writer.write_status(
                    spare, other.runtime_status, other.events, other.finalizers.runtime
                )

    async def _refuse(self, desired: DesiredState, error: HeadraceError, now: datetime) -> None:
        """A declaration that the API server took and that makes no sense: whoever looks at it is told."""
        _log.warning("dataset/%s: %s", desired.title, error)
        content = self.mirror.get("Dataset", *desired.key)
        if content is not None and not is_leaving(content):
            with _noting([]):
                await self.status_writer.write_refusal("Dataset", content, error, now)
        await self._record_event(desired, Reason.REFUSED, error, RUNTIMES)

    async def _record_dataset_event(self, desired: DesiredState, event: Event) -> None:
        content = self.mirror.get("Dataset", *desired.key)
        if content is not None:
            await self.status_writer.record_event(content, "Dataset", event)

    async def _remove_finalizers(self, desired: DesiredState) -> None:
        """Nothing is left of the dataset: runtimes of it that make no sense may go, if that was asked for."""
        for kind, content in desired.leaving_runtimes:
            await self.status_writer.remove_finalizer(kind, content)

    async def _record_event(
        self,
        desired: DesiredState,
        reason: str,
        error: HeadraceError,
        kinds: Iterable[str] = ("Dataset", *RUNTIMES),
    ) -> None:
        for kind in kinds:
            content = self.mirror.get(kind, *desired.key)
            if content is not None:
                await self.status_writer.record_event(
                    content, kind, Event(kind, EventType.WARNING, reason, str(error))
                )


@dataclass(slots=True)
class _Part:
    """How one part of a pass went."""

    fault: HeadraceError | None = None


@contextmanager
def _noting(faults: list[HeadraceError]) -> Iterator[_Part]:
    """Goes on after an error of Headrace, which is noted."""
    part = _Part()
    try:
        yield part
    except HeadraceError as error:
        _log.debug("a part of a pass failed: %s", error)
        part.fault = error
        faults.append(error)


def _not_yet_gone(desired: DesiredState, planned: Plan) -> Plan:
    """The plan while something of it is still there: our finalizers stay."""
    runtime = (FINALIZERS[kind_of(desired.runtime).name],) if desired.runtime else ()
    return replace(planned, finalizers=Finalizers((FINALIZERS["Dataset"],), runtime))

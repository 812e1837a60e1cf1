"""One pass over a dataset: read what is declared, see what runs, plan, say, do."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Generic, TypeVar

from headrace.api.kinds import OPERATIONS, RUNTIMES, kind_of
from headrace.api.names import FINALIZERS
from headrace.errors import HeadraceError
from headrace.operations.work import Work
from headrace.plan.dataset_events import Event, EventType
from headrace.plan.observed import Observed, RoleState
from headrace.plan.outcome import Finalizers, Plan
from headrace.plan.plan import plan, plan_abandoned, plan_spare
from headrace.plan.reasons import Reason
from headrace.plan.refusals import refusal_of
from headrace.plan.roles import MOUNT_PREFIX
from headrace.reconcile.faults import Faults
from headrace.reconcile.operation_pass import OperationPass
from headrace.reconcile.world import Backend, Declarations, Refused, Statement, Subject, World
from headrace.work_queue import ReconcileResult

_AGAIN_S = 1.0
_AFTER_FAULT_S = 5.0

STEP_REFUSED = "StepRefused"
"""The reason of the event that tells of a step which could not be taken."""

_Task = TypeVar("_Task")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class DatasetReconciler(Generic[_Task]):
    """Brings datasets in line with their declarations. Used from one event loop."""

    def __init__(
        self,
        backend: Backend[_Task],
        work: Work[_Task],
        log: logging.Logger,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.backend, self.work = backend, work
        self._log, self._clock = log, clock

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        """One pass."""
        now = self._clock().replace(microsecond=0)
        world = await self.backend.begin((namespace, name), now)
        return await _Pass(world, self.work, now, self._log, Faults(world.outdated)).make()

    async def close(self) -> None:
        """Roles go on, and work that was ordered; what is being ordered is ordered again by whoever comes next."""
        await self.work.close()


@dataclass(slots=True)
class _Pass(Generic[_Task]):
    """One pass over one dataset."""

    world: World[_Task]
    work: Work[_Task]
    now: datetime
    log: logging.Logger
    faults: Faults
    observed: Observed = field(default_factory=Observed)

    @property
    def declarations(self) -> Declarations:
        return self.world.declarations

    async def make(self) -> ReconcileResult:
        """All of it. What one part cannot do stops no other."""
        operations = OperationPass(self.world, self.work, self.now)
        # Before the master is asked: what a load says to be cached is in the status that is written first.
        await operations.ask_loads(self.declarations.operations)
        self.observed = await self.world.observe()
        requeues = []
        if not self.declarations.is_held:
            requeues.append(await self._part(self._serve()))
        for operation in self.declarations.operations:
            requeues.append(await self._part(operations.advance(operation)))
        for refused in self._refused():
            requeues.append(await self._part(self._refuse(refused)))
        requeues.append(await self._part(self.world.finish()))
        if any(facts.state is RoleState.STARTING for facts in self.observed.roles):
            requeues.append(self.world.starting_s)
        return self._result([each for each in requeues if each is not None])

    def _result(self, requeues: list[float]) -> ReconcileResult:
        if self.faults.is_outdated:
            # Somebody wrote in between; what they wrote is on its way.
            self.log.debug("dataset/%s: %s", self.declarations.title, self.faults.found)
            return ReconcileResult(_AGAIN_S)
        self.faults.log(self.log, self.declarations.title)
        return ReconcileResult(min(requeues, default=None), is_complete=not self.faults.found)

    async def _part(self, doing: Awaitable[float | None]) -> float | None:
        """One part; seconds until it is to be done again."""
        before, requeue_s = len(self.faults.found), None
        with self.faults.part():
            requeue_s = await doing
        return _AFTER_FAULT_S if len(self.faults.found) > before else requeue_s

    async def _serve(self) -> float | None:
        """Dataset and runtime a step further."""
        planned = await self._planned()
        observed = self.observed
        is_over = not (observed.roles or planned.roles or planned.holds or observed.users)
        # When nothing of it is left but files, those go before the last word is said.
        is_clear = not is_over or await self._cleared()
        with self.faults.part() as volume:
            await self._follow_volume(planned)
        if not is_clear or volume.fault is not None:
            planned = _not_yet_gone(self.declarations, planned)
        with self.faults.part():
            await self.world.write(self._statements(planned))
        if is_over and is_clear and volume.fault is None:
            await self._let_go_of_runtimes()
        if not is_clear:
            return self.world.starting_s
        if self.faults.is_outdated:
            return None
        requeue_s = await self._taken(planned)
        return None if is_over and self.declarations.declared is None else requeue_s

    async def _planned(self) -> Plan:
        """The plan. Nobody loses a mount that was not yet used when it was observed, nor while that is not known."""
        planned = self._plan()
        if planned.steps.ends_mounts:
            with self.faults.part() as look:
                self.observed = replace(self.observed, users=await self.world.users())
            planned = self._plan()
            if look.fault is not None:
                mounts = [each for each in _roles_in(planned) if each.startswith(MOUNT_PREFIX)]
                planned = replace(planned, steps=planned.steps.without(mounts))
        # Nothing is awaited between seeing what the others have and taking one's own.
        self.world.reserve(planned if self.declarations.declared is not None else None)
        return planned

    def _plan(self) -> Plan:
        declared = self.declarations.declared
        if declared is None:
            return plan_abandoned(self.observed)
        return plan(declared, replace(self.observed, others=self.world.others()), self.now)

    async def _cleared(self) -> bool:
        with self.faults.part():
            return await self.world.clear()
        return False

    async def _follow_volume(self, planned: Plan) -> None:
        in_use = bool(self.observed.users)
        runs_on = self.declarations.declared is None and bool(self.observed.roles)
        if planned.volume is None and (in_use or runs_on):
            return
        await self.world.follow_volume(planned.volume, in_use=in_use, closes=planned.closes)

    def _statements(self, planned: Plan) -> Iterator[Statement]:
        declared, finalizers = self.declarations.declared, planned.finalizers
        if declared is not None and declared.dataset is not None:
            yield Statement.of(declared.dataset, planned.dataset_status, planned.events, finalizers.dataset)
        if declared is None or declared.runtime is None:
            return
        yield Statement.of(declared.runtime, planned.runtime_status, planned.events, finalizers.runtime)
        for spare in self.declarations.spares:
            other = plan_spare(spare, declared.runtime, self.now)
            yield Statement.of(spare, other.runtime_status, other.events, other.finalizers.runtime)

    async def _taken(self, planned: Plan) -> float | None:
        """Takes the steps; one that cannot be taken is told of."""
        if self.declarations.declared is None and planned.steps:
            self.log.info(
                "dataset/%s: is not declared any more, what runs for it ends", self.declarations.title
            )
        wait_s = None
        with self.faults.part() as steps:
            wait_s = await self.world.take(planned)
        if isinstance(steps.fault, HeadraceError) and not self.faults.is_outdated:
            with self.faults.part():
                await self.world.write(self._step_faults(str(steps.fault)))
        return planned.requeue_after_s if wait_s is None else min(planned.requeue_after_s, wait_s)

    def _step_faults(self, message: str) -> Iterator[Statement]:
        declared = self.declarations.declared
        for thing in (declared.dataset, declared.runtime) if declared else ():
            if thing is not None:
                yield Statement(Subject.of(thing), events=(_warning(thing.kind, STEP_REFUSED, message),))

    def _refused(self) -> Iterator[Refused]:
        """What is to be told, or to be let go, now. Of a dataset and its runtimes one thing at a time is told."""
        is_told = self.declarations.is_leaving
        for each in self.declarations.refused:
            if each.subject.kind in OPERATIONS:
                yield each
            elif not is_told:
                is_told = True
                yield each

    async def _refuse(self, refused: Refused) -> None:
        if not refused.is_leaving:
            await self._tell(refused)
            return
        if refused.operation is not None:
            await self.work.cancel(refused.operation)
            await self.work.forget(refused.operation)
        await self._let_go(refused)

    async def _tell(self, refused: Refused) -> None:
        """Says of an object that it makes no sense, in the status where people look, and by an event."""
        subject, told_of = refused.subject, refused.told_of
        self.log.warning("%s/%s/%s: %s", subject.kind, subject.namespace, subject.name, refused.fault)
        statements = []
        if told_of is not None:
            refusal = refusal_of(told_of.kind, refused.status, refused.fault, self.now)
            statements.append(Statement(told_of, refusal.status, refusal.events))
        if told_of != subject:
            event = _warning(subject.kind, Reason.REFUSED, str(refused.fault))
            statements.append(Statement(subject, events=(event,)))
        await self.world.write(statements)

    async def _let_go(self, refused: Refused) -> None:
        await self.world.write([Statement(refused.subject, finalizers=())])

    async def _let_go_of_runtimes(self) -> None:
        """Nothing is left of the dataset: runtimes of it that make no sense may go, if that was asked for."""
        for refused in self.declarations.refused:
            if refused.is_leaving and refused.subject.kind in RUNTIMES:
                with self.faults.part():
                    await self._let_go(refused)


def _warning(kind: str, reason: str, message: str) -> Event:
    return Event(kind, EventType.WARNING, reason, message)


def _roles_in(planned: Plan) -> tuple[str, ...]:
    return (*planned.steps.stop, *planned.steps.replace)


def _not_yet_gone(declarations: Declarations, planned: Plan) -> Plan:
    """The plan while something of it is still there: our finalizers stay."""
    runtime = declarations.declared.runtime if declarations.declared else None
    own = (FINALIZERS[kind_of(runtime).name],) if runtime else ()
    return replace(planned, finalizers=Finalizers((FINALIZERS["Dataset"],), own))

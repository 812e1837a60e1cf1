"""Operations on a dataset, a step further each pass: planned, told of, ordered, followed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from headrace.api.kinds import Operation
from headrace.operations.work import Work, uid_of
from headrace.plan.operation_inputs import JobFacts
from headrace.plan.operations import OperationPlan, plan_operation
from headrace.reconcile.world import Statement, World

_BEGUN_S = 0.5
_HINDERED_S = 1.0

_Task = TypeVar("_Task")


@dataclass(frozen=True, slots=True)
class OperationPass(Generic[_Task]):
    """The operations of one dataset in one pass."""

    world: World[_Task]
    work: Work[_Task]
    now: datetime
    _loads: dict[str, JobFacts | Exception | None] = field(default_factory=dict)

    async def ask_loads(self, operations: Iterable[Operation]) -> None:
        """Asks how loads stand. Why one cannot tell is said where that operation has its turn."""
        for each in operations:
            if each.kind == "DataLoad":
                try:
                    self._loads[uid_of(each)] = await self.work.facts(each)
                except Exception as error:
                    self._loads[uid_of(each)] = error

    async def advance(self, operation: Operation) -> float:
        """Brings it a step further; seconds until the next."""
        uid = uid_of(operation)
        job = self._loads[uid] if uid in self._loads else await self.work.facts(operation)
        if isinstance(job, Exception):
            raise job
        hindrance = self.work.hindrance(operation)
        planned = plan_operation(self.world.inputs(operation, job, hindrance), self.now)
        if not planned.finalizers and not planned.cancel:
            # Once the last finalizer is off, whoever waits for its end expects nothing of it any more.
            await self.work.forget(operation)
        await self.world.write([Statement.of(operation, planned.status, planned.events, planned.finalizers)])
        if planned.delete:
            await self.world.delete(operation)
        await self._order(operation, planned)
        if planned.start is None:
            return planned.requeue_after_s
        # What was just ordered is soon under way.
        return _HINDERED_S if hindrance else _BEGUN_S

    async def _order(self, operation: Operation, planned: OperationPlan) -> None:
        if planned.cancel:
            await self.work.cancel(operation)
        elif planned.start is not None:
            self.work.start(operation, self.world.task(operation, planned.run), planned.run, planned.start)

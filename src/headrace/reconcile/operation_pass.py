"""Operations on a dataset, a step further each pass: planned, told of, ordered, followed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from headrace.api.kinds import Operation
from headrace.operations.work import Work
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

    async def facts(self, operation: Operation) -> JobFacts | Exception | None:
        """How its work stands, or why that cannot be told now, which is said where it has its turn."""
        try:
            return await self.work.facts(operation)
        except Exception as error:
            return error

    async def advance(self, operation: Operation, job: JobFacts | Exception | None) -> float:
        """Brings it a step further; seconds until the next."""
        if isinstance(job, Exception):
            raise job
        hindrance = self.work.hindrance(operation)
        planned = plan_operation(self.world.inputs(operation, job, hindrance), self.now)
        if not planned.finalizers and not planned.cancel:
            # Once the last finalizer is off, whoever waits for its end expects nothing of it any more.
            await self.work.forget(operation)
        await self.world.write([Statement(operation, planned.status, planned.events, planned.finalizers)])
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

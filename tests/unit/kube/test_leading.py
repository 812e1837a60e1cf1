"""Leading for as long as a lease is held. The leases are in memory; tests/kubernetes has a real API server."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from headrace.errors import OriginUnreachableError
from headrace.kube.election import Terms
from headrace.kube.faults import ConflictError
from headrace.kube.leading import Leadership, LeadershipLostError, candidate

QUICK = Terms(duration_s=0.6, renew_deadline_s=0.4, retry_s=0.05)
# For those who shall not lose: a machine that stands still for a while is no loss.
PATIENT = Terms(duration_s=6.0, renew_deadline_s=5.0, retry_s=0.05)


class Memory:
    """Leases under optimistic concurrency, which can be cut off."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.cut = False
        self.stuck = False

    async def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any] | None:
        await self._reach()
        return copy.deepcopy(self.lease)

    async def create(self, content: dict[str, Any]) -> dict[str, Any]:
        await self._reach()
        if self.lease is not None:
            raise ConflictError.of("there is one")
        return self._store(content, 1)

    async def replace(self, content: dict[str, Any]) -> dict[str, Any]:
        await self._reach()
        assert self.lease is not None
        version = self.lease["metadata"]["resourceVersion"]
        if content["metadata"]["resourceVersion"] != version:
            raise ConflictError.of("it changed")
        return self._store(content, int(version) + 1)

    def _store(self, content: dict[str, Any], version: int) -> dict[str, Any]:
        self.lease = copy.deepcopy(content)
        self.lease["metadata"]["resourceVersion"] = str(version)
        return copy.deepcopy(self.lease)

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self.cut:
            raise OriginUnreachableError.of("cut off")
        if self.stuck:
            await asyncio.Event().wait()

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"] if self.lease else ""


def of(memory: Memory, me: str, terms: Terms = QUICK) -> Leadership:
    return Leadership(memory, "system", "operator", me, terms=terms)


class Work:
    """Work that notes whether it is being done."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = False

    async def __call__(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True


def test_of_two_one_leads_and_the_other_follows_when_it_ends() -> None:
    async def story() -> None:
        memory = Memory()
        first, second = of(memory, "first", PATIENT), of(memory, "second", PATIENT)
        work, later = Work(), Work()
        leading = asyncio.create_task(first.lead(work))
        await work.begun.wait()
        following = asyncio.create_task(second.lead(later))
        await asyncio.sleep(PATIENT.duration_s * 1.2)
        assert first.holds()
        assert not second.holds()
        assert not later.begun.is_set()
        leading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leading
        assert work.cancelled
        assert not first.holds()
        assert memory.holder in {"", "second"}, "given back"
        await asyncio.wait_for(later.begun.wait(), 10)
        following.cancel()
        await asyncio.wait({following})

    asyncio.run(story())


def test_the_empty_lease_of_the_chart_is_filled_and_keeps_its_labels() -> None:
    async def scenario() -> None:
        memory = Memory()
        labels = {"app.kubernetes.io/managed-by": "Helm"}
        # As the API server shows an object without a spec.
        memory._store({"kind": "Lease", "metadata": {"labels": labels}, "spec": {}}, 1)
        await asyncio.wait_for(of(memory, "a").acquire(), 5)
        assert memory.holder == "a"
        assert memory.lease is not None
        assert memory.lease["metadata"]["labels"] == labels

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["cut", "stuck"])
def test_who_cannot_renew_stops_its_work(how: str) -> None:
    async def story() -> None:
        memory, work = Memory(), Work()
        leadership = of(memory, "first")
        leading = asyncio.create_task(leadership.lead(work))
        await work.begun.wait()
        setattr(memory, how, True)
        with pytest.raises(LeadershipLostError):
            await asyncio.wait_for(leading, 20)
        assert work.cancelled
        assert not leadership.holds()

    asyncio.run(story())


def test_a_lease_that_somebody_else_has_by_now_is_not_given_back() -> None:
    async def story() -> None:
        memory, work = Memory(), Work()
        leading = asyncio.create_task(of(memory, "first").lead(work))
        await work.begun.wait()
        assert memory.lease is not None
        memory.lease["spec"]["holderIdentity"] = "second"
        memory.lease["metadata"]["resourceVersion"] = "99"
        with pytest.raises(LeadershipLostError):
            await asyncio.wait_for(leading, 20)
        assert memory.holder == "second"

    asyncio.run(story())


def test_a_break_shorter_than_the_deadline_goes_unnoticed() -> None:
    async def story() -> None:
        memory, work = Memory(), Work()
        leading = asyncio.create_task(of(memory, "first", PATIENT).lead(work))
        await work.begun.wait()
        memory.cut = True
        await asyncio.sleep(4 * PATIENT.retry_s)
        memory.cut = False
        # Were the break not over for it, this is when it would give up.
        await asyncio.sleep(PATIENT.duration_s)
        assert not leading.done()
        leading.cancel()
        await asyncio.wait({leading})
        assert memory.holder == ""

    asyncio.run(story())


def test_work_that_ends_or_fails_gives_the_lease_back() -> None:
    async def ends() -> None:
        pass

    async def fails() -> None:
        raise ValueError("a fault")

    async def story() -> None:
        memory = Memory()
        await of(memory, "first").lead(ends)
        assert memory.holder == ""
        with pytest.raises(ValueError, match="a fault"):
            await of(memory, "second").lead(fails)
        assert memory.holder == ""

    asyncio.run(story())


def test_the_time_of_acting_ends_by_the_clock_alone() -> None:
    """Also when nothing of the program runs meanwhile, as after a pause of the machine."""

    async def story() -> None:
        now = 1000.0
        leadership = Leadership(Memory(), "system", "operator", "first", terms=QUICK, clock=lambda: now)
        await leadership.acquire()
        assert leadership.holds()
        now += QUICK.renew_deadline_s
        assert not leadership.holds()

    asyncio.run(story())


def test_each_life_of_a_process_is_another_candidate() -> None:
    assert candidate("operator-0") != candidate("operator-0")
    assert candidate("operator-0").startswith("operator-0_")

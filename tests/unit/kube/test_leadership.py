"""Leading for as long as a lease is held. The leases are in memory; tests/kubernetes has a real API server."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace.errors import OriginUnreachableError
from headrace.kube.election import Terms
from headrace.kube.faults import ConflictError
from headrace.kube.leadership import Leadership, LeadershipLostError, candidate

# So long that a machine that stands still for a while loses nothing by it. Tests move the clock themselves.
TERMS = Terms(duration_s=120.0, renew_deadline_s=100.0, retry_s=0.02)
# For who is held up for good: only real time ends that.
SHORT = Terms(duration_s=3.0, renew_deadline_s=2.0, retry_s=0.02)
DEADLINE_S = 60.0


class Clock:
    """Real time, and what a test adds to it."""

    def __init__(self) -> None:
        self.added_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.added_s


class Memory:
    """Leases under optimistic concurrency, which can be cut off."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.cut = False
        self.stuck = False
        self.refused = 0

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
            self.refused += 1
            raise OriginUnreachableError.of("cut off")
        if self.stuck:
            await asyncio.Event().wait()

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"] if self.lease else ""

    @property
    def version(self) -> str:
        return self.lease["metadata"]["resourceVersion"] if self.lease else ""


def of(memory: Memory, me: str, terms: Terms = TERMS, clock: Clock | None = None) -> Leadership:
    return Leadership(memory, "system", "operator", me, terms=terms, clock=clock or Clock())


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_so():
            await asyncio.sleep(0.005)


async def pass_time(memory: Memory, clock: Clock, seconds: float) -> None:
    """In steps, in each of which the lease is renewed."""
    for _ in range(8):
        clock.added_s += seconds / 8
        before = memory.version
        await until(lambda before=before: memory.version != before)


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
        memory, clock = Memory(), Clock()
        first, second = of(memory, "first", clock=clock), of(memory, "second", clock=clock)
        work, later = Work(), Work()
        leading = asyncio.create_task(first.lead(work))
        await work.begun.wait()
        following = asyncio.create_task(second.lead(later))
        await pass_time(memory, clock, TERMS.duration_s * 1.5)
        assert first.holds()
        assert not second.holds()
        assert not later.begun.is_set()
        leading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leading
        assert work.cancelled
        assert not first.holds()
        assert memory.holder in {"", "second"}, "given back"
        await asyncio.wait_for(later.begun.wait(), DEADLINE_S)
        following.cancel()
        await asyncio.wait({following})

    asyncio.run(story())


def test_the_empty_lease_of_the_chart_is_filled_and_keeps_its_labels() -> None:
    async def scenario() -> None:
        memory = Memory()
        labels = {"app.kubernetes.io/managed-by": "Helm"}
        # As the API server shows an object without a spec.
        memory._store({"kind": "Lease", "metadata": {"labels": labels}, "spec": {}}, 1)
        await asyncio.wait_for(of(memory, "a").acquire(), DEADLINE_S)
        assert memory.holder == "a"
        assert memory.lease is not None
        assert memory.lease["metadata"]["labels"] == labels

    asyncio.run(scenario())


@pytest.mark.parametrize(("how", "terms"), [("cut", TERMS), ("stuck", SHORT)])
def test_who_cannot_renew_stops_its_work(how: str, terms: Terms) -> None:
    async def story() -> None:
        memory, work, clock = Memory(), Work(), Clock()
        leadership = of(memory, "first", terms, clock)
        leading = asyncio.create_task(leadership.lead(work))
        await work.begun.wait()
        setattr(memory, how, True)
        if how == "cut":
            await until(lambda: memory.refused > 1)
            assert leadership.holds()
            clock.added_s += terms.renew_deadline_s
        with pytest.raises(LeadershipLostError):
            await asyncio.wait_for(leading, DEADLINE_S)
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
            await asyncio.wait_for(leading, DEADLINE_S)
        assert memory.holder == "second"

    asyncio.run(story())


def test_a_break_shorter_than_the_deadline_goes_unnoticed() -> None:
    async def story() -> None:
        memory, work, clock = Memory(), Work(), Clock()
        leading = asyncio.create_task(of(memory, "first", clock=clock).lead(work))
        await work.begun.wait()
        memory.cut = True
        clock.added_s += TERMS.renew_deadline_s / 2
        await until(lambda: memory.refused > 3)
        memory.cut = False
        # Were the break not over for it, this is when it would give up.
        await pass_time(memory, clock, TERMS.duration_s)
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
        leadership = Leadership(Memory(), "system", "operator", "first", terms=TERMS, clock=lambda: now)
        await leadership.acquire()
        assert leadership.holds()
        now += TERMS.renew_deadline_s
        assert not leadership.holds()

    asyncio.run(story())


def test_each_life_of_a_process_is_another_candidate() -> None:
    assert candidate("operator-0") != candidate("operator-0")
    assert candidate("operator-0").startswith("operator-0_")

"""The master's loads around a runner whose jobs end when they are told to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from headrace.control.loads import Loads
from headrace.control.messages import LoadOrder, LoadReport, LoadState
from headrace.errors import DeadlineError


class Job:
    def __init__(self) -> None:
        self.state = "running"
        self.cached: dict[str, int] = {}

    def progress(self) -> Mapping[str, Any]:
        return {"state": self.state, "cached_by_worker": self.cached}

    def cancel(self) -> None:
        self.state = "cancelled"


class Runner:
    def __init__(self) -> None:
        self.jobs: list[tuple[str, Job]] = []

    def start(self, report: LoadReport) -> Job:
        self.jobs.append((report.id, Job()))
        return self.jobs[-1][1]


async def until_ended(loads: Loads) -> None:
    async with asyncio.timeout(120):
        while not all(report.state.ended for report in loads.reports()):
            await asyncio.sleep(0.01)


def test_a_load_ordered_while_those_of_an_earlier_master_resume_runs_once() -> None:
    async def test() -> None:
        runner = Runner()
        saving = asyncio.Event()
        resumed = asyncio.Event()

        async def save() -> None:
            saving.set()
            await resumed.wait()

        loads = Loads(runner, save)
        order = asyncio.create_task(loads.start(LoadOrder()))
        await saving.wait()
        loads.resume()
        resumed.set()
        report = await order
        async with asyncio.timeout(120):
            while not runner.jobs:
                await asyncio.sleep(0.01)
        # A second job would have been begun by now: threads are asked in order.
        await asyncio.to_thread(lambda: None)
        assert [load_id for load_id, _ in runner.jobs] == [report.id]
        runner.jobs[0][1].state = "done"
        await until_ended(loads)
        assert loads.get(report.id).state is LoadState.DONE
        await loads.close()
        assert len(runner.jobs) == 1

    asyncio.run(test())


def test_what_workers_have_is_known_before_a_load_says_that_it_is_done() -> None:
    async def test() -> None:
        runner, heard = Runner(), list[tuple[Mapping[str, int], list[LoadState]]]()
        loads = Loads(runner, _nothing, lambda cached: heard.append((cached, states())))

        def states() -> list[LoadState]:
            return [report.state for report in loads.reports()]

        await loads.start(LoadOrder())
        async with asyncio.timeout(120):
            while not runner.jobs:
                await asyncio.sleep(0.01)
        job = runner.jobs[0][1]
        job.state, job.cached = "done", {"worker-0": 5}
        await until_ended(loads)
        await loads.close()
        assert heard[-1] == ({"worker-0": 5}, [LoadState.RUNNING])

    asyncio.run(test())


class Refusing(Runner):
    def start(self, report: LoadReport) -> Job:
        raise DeadlineError.of("the disk of cache folder /cache does not answer", hint="check that disk")


def test_a_load_that_does_not_begin_says_what_to_do() -> None:
    async def test() -> None:
        loads = Loads(Refusing(), _nothing)
        report = await loads.start(LoadOrder())
        await until_ended(loads)
        assert loads.get(report.id).state is LoadState.FAILED
        assert (
            loads.get(report.id).message == "the disk of cache folder /cache does not answer; check that disk"
        )

    asyncio.run(test())


async def _nothing() -> None:
    """What is kept is of no interest."""

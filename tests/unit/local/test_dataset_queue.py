"""Which dataset is looked at, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headrace.local.dataset_queue import WorkQueue
from headrace.local.reconciler import ReconcileResult
from headrace.local.store.records import Reference
from headrace.work_queue import back_off_s, families, samples_of


class Scripted:
    """Notes who was looked at; `answers` are given in turn, an exception is raised."""

    def __init__(self, *answers) -> None:
        self.looks: list[tuple[str, str]] = []
        self.running = self.most_running = 0
        self.answers = list(answers)
        self.gate = asyncio.Event()
        self.gate.set()
        self.looked = asyncio.Queue()

    def affected_datasets(self, changed: Reference):
        return [(changed.namespace, changed.name)]

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        self.looks.append((namespace, name))
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        await self.gate.wait()
        await asyncio.sleep(0)
        self.running -= 1
        answer = self.answers.pop(0) if self.answers else ReconcileResult()
        self.looked.put_nowait(name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None: ...


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.001)


def test_a_dataset_that_changes_during_its_look_is_looked_at_once_more() -> None:
    async def run() -> None:
        scripted = Scripted()
        queue = WorkQueue(scripted)
        scripted.gate.clear()
        queue.enqueue([("default", "a")])
        await until(lambda: scripted.running == 1)
        for _ in range(5):
            queue.enqueue([("default", "a")])
        scripted.gate.set()
        await scripted.looked.get()
        await scripted.looked.get()
        await asyncio.sleep(0.01)
        assert scripted.looks == [("default", "a")] * 2
        assert scripted.most_running == 1
        await queue.close()

    asyncio.run(run())


def test_datasets_are_looked_at_beside_each_other() -> None:
    async def run() -> None:
        scripted = Scripted()
        queue = WorkQueue(scripted)
        scripted.gate.clear()
        queue.enqueue([("default", str(number)) for number in range(20)])
        await until(lambda: scripted.running > 1)
        await asyncio.sleep(0.01)
        assert scripted.most_running < 20
        scripted.gate.set()
        for _ in range(20):
            await scripted.looked.get()
        assert len(set(scripted.looks)) == 20
        await queue.close()

    asyncio.run(run())


def test_a_dataset_is_looked_at_again_when_it_wishes() -> None:
    async def run() -> None:
        scripted = Scripted(ReconcileResult(0.01), ReconcileResult(0.01))
        queue = WorkQueue(scripted)
        queue.enqueue([("default", "a")])
        for _ in range(3):
            await scripted.looked.get()
        await queue.close()

    asyncio.run(run())


def test_a_look_that_fails_is_tried_again_and_hinders_nobody() -> None:
    async def run() -> None:
        scripted = Scripted(RuntimeError("broken"))
        queue = WorkQueue(scripted)
        queue.enqueue([("default", "a")])
        await scripted.looked.get()
        queue.enqueue([("default", "b")])
        assert await scripted.looked.get() == "b"
        assert await scripted.looked.get() == "a"
        await queue.close()

    asyncio.run(run())


def test_pauses_grow_and_end() -> None:
    assert [back_off_s(number) for number in (1, 2, 3)] == [0.5, 1.0, 2.0]
    assert back_off_s(1000) == 60.0


def test_looks_are_counted_by_how_they_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # The one that failed is not tried again before all was counted, however late that is.
    monkeypatch.setattr("headrace.work_queue._FIRST_PAUSE_S", 60.0)

    async def run() -> None:
        scripted = Scripted(ReconcileResult(), ReconcileResult(is_complete=False), RuntimeError("no"))
        queue = WorkQueue(scripted)
        assert samples_of("x", queue) == samples_of("x", None)
        for name in ("a", "b", "c"):
            queue.enqueue([("default", name)])
            await scripted.looked.get()
        await until(lambda: queue.under_way == 0)
        scripted.gate.clear()
        queue.enqueue([("default", "d"), ("default", "e")])
        await until(lambda: scripted.running == 2)
        samples = samples_of("x", queue)
        counts = {labels["result"]: count for labels, count in samples["x_reconciles"]}
        assert counts == {"done": 1, "incomplete": 1, "failed": 1}
        assert samples["x_reconcile_seconds"] > 0
        assert samples["x_under_way"] == 2
        assert samples["x_failing"] == 1
        await queue.close()
        assert samples.keys() == {family.name for family in families("x", "dataset")}

    asyncio.run(run())

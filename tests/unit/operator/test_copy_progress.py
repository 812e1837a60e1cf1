"""The operator asks the pod of a copy how far it is: a real server answers, well, badly, or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from headrace.api.formats import format_bytes
from headrace.engine.status import JobReport
from headrace.operations.run_notes import Note
from headrace.operator.operations.copy_driver import copy_facts
from headrace.operator.operations.copy_progress import ProgressClient
from headrace.operator.operations.job_status import JobStatus
from headrace.plan.operation_inputs import JobState
from headrace.roles.pages.progress_page import ProgressPage
from headrace.roles.processes.progress import CopyProgress, ProgressFile
from headrace.testing.processes import free_port


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question may take three seconds; an answer that a busy machine holds up is an answer."""
    monkeypatch.setattr("headrace.operator.operations.copy_progress._ANSWER_S", 60.0)


NOTE = Note("copy", "once", "2026-01-31T09:30:00Z")
RUNNING = JobStatus(JobState.RUNNING, "node-1", address="127.0.0.1")


def asked(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> tuple[CopyProgress | None, int]:
    """What is understood of a server's answers to two questions, and how often it was asked."""
    calls = 0

    async def counted(request: web.Request) -> web.StreamResponse:
        nonlocal calls
        calls += 1
        return await answer(request)

    async def run() -> CopyProgress | None:
        application = web.Application()
        application.add_routes([web.get("/v1/progress", counted)])
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        asking = ProgressClient(runner.addresses[0][1])
        try:
            await asking.progress("127.0.0.1")
            return await asking.progress("127.0.0.1")
        finally:
            await runner.cleanup()

    return asyncio.run(run()), calls


def test_a_copy_that_runs_is_told_with_its_rate_and_its_end() -> None:
    progress = ProgressFile(None)
    progress.tell(JobReport(done_bytes=1 << 20, total_bytes=4 << 20, done_files=1, total_files=4))
    page = ProgressPage("127.0.0.1:0", lambda: progress.numbers)
    try:
        said = asyncio.run(ProgressClient(page.port).progress("127.0.0.1"))
    finally:
        page.close()
    facts = copy_facts(NOTE, RUNNING, said)
    assert (facts.state, facts.done_files, facts.total_files) == (JobState.RUNNING, 1, 4)
    assert format_bytes(facts.done_bytes) == "1.00MiB"
    assert facts.bytes_per_second == 0.0


async def odd(_: web.Request) -> web.StreamResponse:
    return web.Response(text=json.dumps({"format": 1, "state": "odd"}))


async def endless(_: web.Request) -> web.StreamResponse:
    return web.Response(text="x" * (1 << 20))


async def elsewhere(_: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/")


@pytest.mark.parametrize("answer", [odd, endless, elsewhere])
def test_an_answer_that_is_none_tells_nothing(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> None:
    assert asked(answer) == (None, 2)


def test_a_pod_that_does_not_answer_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.operator.operations.copy_progress._ANSWER_S", 0.5)
    monkeypatch.setattr("headrace.operator.operations.copy_progress._AGAIN_AFTER_S", 600.0)

    async def silent(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(600)
        return web.Response()

    assert asked(silent) == (None, 1)


def test_a_pod_whose_page_is_not_there_yet_is_asked_again_at_once() -> None:
    progress = ProgressFile(None)
    progress.tell(JobReport(done_files=1, total_files=4))
    asking = ProgressClient(free_port())
    assert asyncio.run(asking.progress("127.0.0.1")) is None
    page = ProgressPage(f"127.0.0.1:{asking.port}", lambda: progress.numbers)
    try:
        assert asyncio.run(asking.progress("127.0.0.1")) is not None
    finally:
        page.close()


def test_a_copy_that_cannot_be_asked_runs_all_the_same() -> None:
    facts = copy_facts(NOTE, RUNNING, None)
    assert (facts.state, facts.total_files, facts.bytes_per_second) == (JobState.RUNNING, 0, None)

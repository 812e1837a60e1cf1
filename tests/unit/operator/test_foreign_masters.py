"""Whatever answers in the place of a master: a real server, endless, slow, packed, deep, or with senseless numbers."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from operator_context import OperatorWorld
from pydantic import SecretStr

from headrace.control.client import ControlClient
from headrace.control.messages import ClusterReport
from headrace.control.signing import NONCE, SIGNATURE, SigningKey, body_digest
from headrace.jobs.data_cost import mount_counters, values_of
from headrace.kube.pod_metrics import DirectScraper
from headrace.operator import observer

TOKEN = SecretStr("planted-token-0123456789abcdef")
GOOD = ClusterReport(now_s=1.0).model_dump(mode="json")
WORKER = {"id": "worker-0", "node": "node-1", "state": "active"}
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def with_server(path: str, answer: Answer, ask: Callable[[int], Awaitable[Any]]) -> Any:
    """What is asked of a server that answers so."""

    async def run() -> Any:
        application = web.Application()
        application.add_routes([web.get(path, answer), web.get("/elsewhere", answer)])
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            return await ask(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def signed(body: bytes, token: SecretStr = TOKEN, packed: str = "") -> Answer:
    """An answer that is proven: the tenant whose master it is may read its Secret."""

    async def answer(request: web.Request) -> web.Response:
        proof = SigningKey.of(token).sign_answer(request.headers[NONCE], 200, body_digest(body))
        packing = {"Content-Encoding": packed} if packed else {}
        return web.Response(body=body, headers={SIGNATURE: proof, **packing})

    return answer


def told(answer: Answer) -> observer.Told:
    """What the operator makes of it."""

    async def ask(port: int) -> observer.Told:
        return await observer._told(f"http://127.0.0.1:{port}", TOKEN)

    found: observer.Told = with_server("/v1/report", answer, ask)
    return found


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(200):
        await response.write(b"[" * (64 << 10))
    return response


async def unsigned(_request: web.Request) -> web.Response:
    return web.json_response(GOOD)


async def to_elsewhere(_request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "/elsewhere"})


def test_a_report_that_is_proven_is_taken() -> None:
    report = told(signed(json.dumps({**GOOD, "workers": [WORKER], "of_later": [1]}).encode()))
    assert report.status is not None
    assert [each["id"] for each in report.status["workers"]] == ["worker-0"]


@pytest.mark.parametrize(
    "answer",
    [
        endless,
        unsigned,
        to_elsewhere,
        signed(json.dumps(GOOD).encode(), SecretStr("another-token-0123456789")),
        signed(gzip.compress(json.dumps(GOOD).encode()), packed="gzip"),
        signed(b"[" * 100_000),
        signed(json.dumps({**GOOD, "cached_bytes": 2**64}).encode()),
        signed(b'{"now_s": 1, "cached_bytes": ' + b"9" * 100_000 + b"}"),
        signed(b'{"now_s": NaN}'),
        signed(b'{"now_s": 1e999}'),
        signed(json.dumps({**GOOD, "workers": [{**WORKER, "id": "x" * 64}]}).encode()),
        signed(json.dumps({**GOOD, "workers": [WORKER] * 5000}).encode()),
        signed(json.dumps({**GOOD, "workers": {"0": WORKER}}).encode()),
        signed(json.dumps({**GOOD, "throughput": [[1]]}).encode()),
        signed(json.dumps({**GOOD, "refresh_error": "x" * 5000}).encode()),
        signed(b"null"),
    ],
    ids=lambda answer: getattr(answer, "__name__", ""),
)
def test_what_is_no_sound_report_is_not_taken_and_told(answer: Answer) -> None:
    found = told(answer)
    assert found.status is None
    assert found.fault
    assert len(found.fault) < 500


def test_answers_to_orders_have_the_same_bound() -> None:
    async def ask(port: int) -> str:
        async with ControlClient(f"http://127.0.0.1:{port}", TOKEN, most_bytes=1 << 20) as client:
            with pytest.raises(Exception, match="larger than") as raised:
                await client.load("x")
        return str(raised.value)

    assert "it is not read" in with_server("/v1/loads/x", endless, ask)


def test_a_bad_master_is_one_degraded_dataset_and_keeps_no_other(world: OperatorWorld) -> None:
    world.declare()
    world.settle()
    world.masters.fault = "its answer is larger than 1048576 bytes"
    world.reconcile()
    world.reconcile()
    conditions = world.cluster.objects["Dataset", "default", "imagenet"]["status"]["conditions"]
    degraded = next(each for each in conditions if each["type"] == "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "MasterNotUnderstood")
    assert "larger than 1048576 bytes" in degraded["message"]


def scraped(answer: Answer) -> str | None:
    """What the keeper of jobs reads of a pod."""

    async def ask(port: int) -> str | None:
        return await DirectScraper().text({"status": {"podIP": "127.0.0.1"}}, port)

    found: str | None = with_server("/metrics", answer, ask)
    return found


def test_the_metrics_of_a_pod_are_read_within_bounds_and_from_nowhere_else() -> None:
    async def packed(_request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(b"a" * (64 << 20)), headers={"Content-Encoding": "gzip"})

    async def good(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(text="headrace_read_hit_bytes_total 7\n")

    assert scraped(good) == "headrace_read_hit_bytes_total 7\n"
    for answer in (endless, packed, to_elsewhere):
        assert scraped(answer) is None


def test_only_counts_that_can_be_are_counted() -> None:
    lines = [
        f'headrace_read_hit_bytes_total{{of="{value}"}} {value}'
        for value in ("7", "nan", "inf", "-1", "1e300", "1e999")
    ]
    values = values_of("\n".join([*lines, *(f"name_{number} 1" for number in range(1000)), "# EOF\n"]))
    assert values is not None
    assert list(values) == ["headrace_read_hit_bytes_total"]
    assert mount_counters(values).read_bytes == 7.0

"""The master over real HTTP: who may ask for what, and which answers are believed."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import masters
import pytest
from aiohttp import web
from masters import TOKEN, Running, heartbeat, impostor, until, with_master
from pydantic import SecretStr

from headrace.control.client import ControlClient
from headrace.control.fetching import fetch_snapshot
from headrace.control.messages import (
    LoadAction,
    LoadOrder,
    MountHeartbeat,
    Traffic,
)
from headrace.control.rights import Rights, derive
from headrace.control.server import LARGEST_BODY_BYTES
from headrace.control.signing import Verdict
from headrace.errors import BusyError, ConfigError, MissingFileError, RefusedError

pytestmark = pytest.mark.usefixtures("module")

SIGNED = [
    ("POST", "/v1/heartbeat"),
    ("POST", "/v1/mounts"),
    ("GET", "/v1/view"),
    ("GET", "/v1/snapshot"),
    ("GET", "/v1/pins"),
    ("GET", "/v1/report"),
    ("POST", "/v1/refresh"),
    ("POST", "/v1/drain"),
    ("POST", "/v1/loads"),
    ("GET", "/v1/loads"),
    ("GET", "/v1/loads/x"),
    ("DELETE", "/v1/loads/x"),
]


def test_nothing_that_changes_or_reveals_answers_without_a_signature(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        async with aiohttp.ClientSession() as session:
            for method, path in SIGNED:
                for headers in (
                    {},
                    {"Headrace-Time": "1", "Headrace-Nonce": "n", "Headrace-Signature": "v1=00"},
                ):
                    async with session.request(method, master.url + path, headers=headers) as answer:
                        assert answer.status == 401
                        assert (await answer.json())["kind"] == "PermissionDenied"
            for path in ("/v1/status", "/metrics", "/healthz", "/"):
                async with session.get(master.url + path) as answer:
                    assert answer.status == 200
            async with session.get(master.url + "/v2/view") as answer:
                assert answer.status == 404
        assert {route.path for route in _routes(master)} >= {path for _, path in SIGNED[:9]}

    with_master(tmp_path, test)


def _routes(master: Running) -> list[SimpleNamespace]:
    router = master.server._application.router
    return [SimpleNamespace(path=route.resource.canonical) for route in router.routes() if route.resource]


def test_a_body_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        async with aiohttp.ClientSession() as session:
            headers = {"Headrace-Time": "1", "Headrace-Nonce": "n", "Headrace-Signature": f"v1={'0' * 64}"}
            body = io.BytesIO(b"x" * (LARGEST_BODY_BYTES + 1))
            async with session.post(master.url + "/v1/loads", data=body, headers=headers) as answer:
                assert answer.status == 413

    with_master(tmp_path, test)


def mount_beat() -> MountHeartbeat:
    return MountHeartbeat(id="m", instance="i", node="n", mountpoint="/mnt", traffic=Traffic())


Question = Callable[[ControlClient], Awaitable[object]]
ORDERS: dict[str, Question] = {
    "refresh": lambda client: client.refresh(),
    "drain": lambda client: client.drain("w1"),
    "load": lambda client: client.start_load(LoadOrder()),
    "evict": lambda client: client.start_load(LoadOrder(action=LoadAction.EVICT)),
    "pin": lambda client: client.start_load(LoadOrder(pin=True)),
    "loads": lambda client: client.loads(),
    "a load": lambda client: client.load("1"),
    "cancel": lambda client: client.cancel_load("1"),
}
WORK: dict[str, Question] = {
    "register": lambda client: client.heartbeat(heartbeat("w1")),
    "pins": lambda client: client.pins(),
}


async def refused(client: ControlClient, questions: dict[str, Question], given: str, needed: str) -> None:
    for name, ask in questions.items():
        with pytest.raises(RefusedError, match=f"{given} is not enough") as raised:
            await ask(client)
        assert needed in str(raised.value.hint), name


def test_a_reader_reads_and_neither_registers_nor_orders_anything(tmp_path: Path) -> None:
    async def test(master: Running, _whole: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        async with master.client(derive(TOKEN, Rights.READER)) as reader:
            note = (await reader.outlook()).snapshot
            assert note is not None
            assert await fetch_snapshot(reader, note, tmp_path / "reader") is not None
            assert (await reader.mount_heartbeat(mount_beat())).next_interval_s > 0
            await refused(reader, ORDERS, "a reader's token", "the whole token")
            await refused(reader, WORK, "a reader's token", "headrace token --for worker")
        assert not master.cluster.view.members
        assert master.server.refused[Verdict.FORBIDDEN] == len(ORDERS) + len(WORK)

    with_master(tmp_path, test)


def test_a_worker_registers_and_orders_nothing(tmp_path: Path) -> None:
    async def test(master: Running, _whole: ControlClient) -> None:
        async with master.client(derive(TOKEN, Rights.WORKER)) as worker:
            for ask in WORK.values():
                await ask(worker)
            await until(lambda: len(master.cluster.view.members) == 1)
            assert (await worker.outlook()).view is not None
            await refused(worker, ORDERS, "a worker's token", "the whole token")

    with_master(tmp_path, test)


def test_who_has_the_whole_token_may_do_everything(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        for ask in (*WORK.values(), *ORDERS.values()):
            with contextlib.suppress(MissingFileError, BusyError, ConfigError):  # there is no such load
                await ask(client)
        assert (await client.mount_heartbeat(mount_beat())).next_interval_s > 0
        assert not master.server.refused[Verdict.FORBIDDEN]

    with_master(tmp_path, test)


def test_a_wrong_token_is_told_in_words(tmp_path: Path) -> None:
    async def test(master: Running, _: ControlClient) -> None:
        async with master.client(SecretStr("another-token-0123456789")) as stranger:
            with pytest.raises(RefusedError, match="does not accept the token"):
                await stranger.heartbeat(heartbeat())
        async with master.client(None) as nobody:
            with pytest.raises(RefusedError, match="needs the token"):
                await nobody.heartbeat(heartbeat())
            assert (await nobody.status())["workers"] == []

    with_master(tmp_path, test)


def test_a_clock_that_differs_is_allowed_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        client._ahead_ms = 3_600_000
        await client.heartbeat(heartbeat())
        assert abs(client._ahead_ms) < 5000

    with_master(tmp_path, test)


@pytest.mark.parametrize("status", [200, 201, 302, 404, 409, 500])
def test_an_impostor_is_not_believed(status: int) -> None:
    """Somebody else answers with what the master would, signed by a token of his own."""

    async def test() -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            headers = {"Headrace-Signature": "v1=" + "0" * 64, "Location": "http://127.0.0.1:1/"}
            return web.json_response({"cluster": "shop", "epoch": 9}, status=status, headers=headers)

        async with impostor(answer) as url, ControlClient(url, TOKEN) as client:
            with pytest.raises(RefusedError, match="is not from the master of this cluster"):
                await client.outlook()

    asyncio.run(test())


def test_an_answer_that_was_tampered_with_is_not_believed(tmp_path: Path) -> None:
    """A relay that changes one byte of the master's own signed answer, or plays back an old one."""

    async def test(master: Running, _: ControlClient) -> None:
        kept: list[tuple[bytes, dict[str, str]]] = []
        mode = "change"

        async def relay(request: web.Request) -> web.StreamResponse:
            async with aiohttp.ClientSession() as session:
                headers = {
                    name: value for name, value in request.headers.items() if name.startswith("Headrace")
                }
                async with session.get(master.url + request.path_qs, headers=headers) as answer:
                    body, signed = (
                        await answer.read(),
                        {"Headrace-Signature": answer.headers["Headrace-Signature"]},
                    )
            kept.append((body, signed))
            if mode == "change":
                body = body.replace(b"shop", b"shoq")
            elif mode == "replay":
                body, signed = kept[0]
            return web.Response(body=body, headers=signed)

        async with impostor(relay) as url, ControlClient(url, TOKEN) as client:
            with pytest.raises(RefusedError):
                await client.outlook()
            mode = "replay"
            with pytest.raises(RefusedError):
                await client.outlook()
            mode = "honest"
            assert (await client.outlook()).cluster == "shop"

    with_master(tmp_path, test)


def test_nothing_secret_is_told(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        await client.heartbeat(heartbeat())
        told = [json.dumps((await client.outlook()).model_dump()), json.dumps(await client.status())]
        for path in ("/metrics", "/", "/v1/status"):
            told.append((await asyncio.to_thread(masters.fetch, master.url + path)).decode())
        told += [path.read_text() for path in tmp_path.glob("state.json*")]
        assert not [text for text in told if "PLANTED" in text or TOKEN.get_secret_value() in text]

    with_master(tmp_path, test)

"""The master over real HTTP on loopback, around the double of its engine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import cluster_double
import masters
import pytest
from aiohttp import web
from masters import TOKEN, Running, heartbeat, running_master
from pydantic import SecretStr

from headrace.control import messages
from headrace.control.client import ControlClient
from headrace.control.cluster import Cluster
from headrace.control.fetching import fetch_snapshot
from headrace.control.messages import (
    HeartbeatOrder,
    LoadAction,
    LoadOrder,
    LoadReport,
    LoadState,
    MountHeartbeat,
    Pins,
    Traffic,
    WorkerState,
    encode_paths,
)
from headrace.control.rights import Rights, derive
from headrace.control.server import LARGEST_BODY_BYTES
from headrace.control.signing import Verdict
from headrace.engine import native
from headrace.errors import BusyError, ConfigError, MissingFileError, OriginUnreachableError, RefusedError


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = cluster_double.make_module()
    monkeypatch.setattr(native, "load", lambda: made)
    return made


def run(folder: Path, test: Callable[[Running, ControlClient], Awaitable[None]], **settings: object) -> None:
    async def go() -> None:
        async with running_master(folder, **settings) as master, master.client() as client:
            await test(master, client)

    asyncio.run(go())


async def until(is_so: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(120):
        while True:
            answer = is_so()
            if await answer if asyncio.iscoroutine(answer) else answer:
                return
            await asyncio.sleep(0.01)


def test_a_heartbeat_makes_a_member_and_answers_with_the_view(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await client.heartbeat(heartbeat("w1"))
        await until(lambda: master.cluster.view.epoch > 0)
        answer = await client.heartbeat(heartbeat("w1", known_epoch=0))
        assert answer.outlook.view is not None
        (member,) = answer.outlook.view["members"]
        assert member["id"] == "w1"
        assert member["state"] == "active"
        assert answer.order is HeartbeatOrder.SERVE
        known = await client.heartbeat(heartbeat("w1", known_epoch=answer.outlook.epoch))
        assert known.outlook.view is None

    run(tmp_path, test)


def test_a_long_poll_ends_with_the_change(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        now = await client.outlook()
        assert now.snapshot is not None
        waiting = asyncio.create_task(
            client.outlook(after_epoch=now.epoch, after_snapshot=now.snapshot.tag, wait_s=25)
        )
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await client.heartbeat(heartbeat("w1"))
        assert (await waiting).epoch > now.epoch
        epoch = master.cluster.view.epoch
        waiting = asyncio.create_task(
            client.outlook(after_epoch=epoch, after_snapshot=now.snapshot.tag, wait_s=25)
        )
        await client.refresh()
        news = await waiting
        assert news.snapshot is not None
        assert news.snapshot.version == now.snapshot.version + 1

    run(tmp_path, test)


def test_a_silent_worker_leaves_the_view(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        async def all_three() -> bool:
            for name in ("w1", "w2", "w3"):
                await client.heartbeat(heartbeat(name))
            return len(master.cluster.view.members) == 3

        await until(all_three)

        async def only_two() -> bool:
            await client.heartbeat(heartbeat("w1"))
            await client.heartbeat(heartbeat("w2"))
            return [member.id for member in master.cluster.view.members] == ["w1", "w2"]

        await until(only_two)

        async def all_told() -> bool:
            if not await only_two():
                return False
            rows = {row["id"]: row["state"] for row in (await client.status())["workers"]}
            return rows == {"w1": "active", "w2": "active", "w3": "dead"}

        await until(all_told)

    run(tmp_path, test, dead_after_s=2.0)


def test_a_worker_of_other_origins_is_refused(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        with pytest.raises(ConfigError, match="has other origins"):
            await client.heartbeat(heartbeat("w1", dataset="0" * 32))
        with pytest.raises(ConfigError, match="cannot be listed"):
            await client.heartbeat(heartbeat("w1", address="nobody"))

    run(tmp_path, test)


def test_drain_order_and_end(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        with pytest.raises(ConfigError, match="not a worker"):
            await client.drain("nobody")
        await client.heartbeat(heartbeat("w1"))
        with pytest.raises(BusyError, match="would leave 0 active"):
            await client.drain("w1")
        await client.heartbeat(heartbeat("w2"))
        await client.drain("w1")
        assert (await client.heartbeat(heartbeat("w1"))).order is HeartbeatOrder.DRAIN
        await client.drain("w1", cancel=True)
        assert (await client.heartbeat(heartbeat("w1"))).order is HeartbeatOrder.SERVE
        await client.drain("w1")
        await client.heartbeat(heartbeat("w1", state=WorkerState.LEFT))
        await until(lambda: [member.id for member in master.cluster.view.members] == ["w2"])
        assert (await client.heartbeat(heartbeat("w1"))).order is HeartbeatOrder.STOP

    run(tmp_path, test)


def test_a_snapshot_is_downloaded_and_gone_on_with(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        outlook = await client.outlook()
        note = outlook.snapshot
        assert note is not None
        assert (note.version, note.files, note.data_bytes) == (1, 3, 1000)
        whole = cluster_double.snapshot_bytes(1)
        folder = tmp_path / "mount"
        folder.mkdir()
        # A download broke off here: the rest alone is fetched.
        (folder / f".snapshot-{note.tag}.part").write_bytes(whole[:150_000])
        pieces: list[bytes] = []
        real = client.copy_snapshot

        async def counted(version: int, offset: int, size: int, write: Callable[[bytes], object]) -> str:
            return await real(version, offset, size, lambda piece: (pieces.append(piece), write(piece)))

        client.copy_snapshot = counted  # type: ignore[method-assign]
        path = await fetch_snapshot(client, note, folder)
        assert path.name == "snapshot-1.hrs"
        assert path.read_bytes() == whole
        assert sum(map(len, pieces)) == 50_000
        assert await fetch_snapshot(client, note, folder) == path
        assert sum(map(len, pieces)) == 50_000
        with pytest.raises(MissingFileError):
            await client.copy_snapshot(77, 0, 1, lambda _: None)

    run(tmp_path, test)


def test_a_damaged_part_is_noticed_and_fetched_anew(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        note = (await client.outlook()).snapshot
        assert note is not None
        folder = tmp_path / "mount"
        folder.mkdir()
        (folder / f".snapshot-{note.tag}.part").write_bytes(b"x" * 1000)
        from headrace.errors import CorruptDataError

        with pytest.raises(CorruptDataError, match="did not come whole"):
            await fetch_snapshot(client, note, folder)
        assert (await fetch_snapshot(client, note, folder)).read_bytes() == cluster_double.snapshot_bytes(1)

    run(tmp_path, test)


def test_a_load_runs_is_shown_and_cancelled(tmp_path: Path, module: SimpleNamespace) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: bool(module.Lister.opened) and master.cluster.shelf.newest is not None)
        order = LoadOrder(paths=encode_paths([b"train/\xff \xe6"]), replicas=2, rate_bytes_per_s=7)
        report = await client.start_load(order)
        (lister,) = module.Lister.opened
        await until(lambda: bool(lister.jobs))
        wishes = {"replicas": 2, "bytes_per_second": 7, "verify": False}
        assert lister.loads == [([b"train/\xff \xe6"], wishes)]

        async def half() -> bool:
            return (await client.load(report.id)).done_bytes == 50

        await until(half)
        lister.jobs[0].end()
        await until(lambda: master.cluster.loads.get(report.id).state is LoadState.DONE)
        assert (await client.load(report.id)).complete
        other = await client.start_load(LoadOrder())
        await until(lambda: len(lister.jobs) == 2)
        assert lister.loads[1][0] == [b""]
        assert (await client.cancel_load(other.id)).state is LoadState.CANCELLED
        assert [load.id for load in await client.loads()] == [other.id, report.id]
        with pytest.raises(MissingFileError, match="no load nobody"):
            await client.load("nobody")

    run(tmp_path, test)


def test_loads_wait_for_their_places(tmp_path: Path, module: SimpleNamespace) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        reports = [await client.start_load(LoadOrder()) for _ in range(6)]
        (lister,) = module.Lister.opened
        await until(lambda: len(lister.jobs) == 4)
        waiting = master.cluster.loads.get(reports[5].id)
        assert waiting.state is LoadState.WAITING
        assert (await client.cancel_load(waiting.id)).state is LoadState.CANCELLED
        lister.jobs[0].end()
        await until(lambda: len(lister.jobs) == 5)
        for job in lister.jobs:
            job.end()
        await until(lambda: all(report.state.ended for report in master.cluster.loads.reports()))
        assert len(lister.jobs) == 5

    run(tmp_path, test)


def test_pins_reach_workers_and_end_with_eviction(tmp_path: Path, module: SimpleNamespace) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        assert (await client.pins()).count == 0
        await client.start_load(LoadOrder(paths=encode_paths([b"a", b"a/b", b"c"]), pin=True))
        pins = await client.pins()
        assert pins.count == 3
        assert (await client.heartbeat(heartbeat())).outlook.pins_version == pins.version
        done = await client.start_load(LoadOrder(action=LoadAction.UNPIN, paths=encode_paths([b"a"])))
        assert done.complete
        assert (await client.pins()).count == 1
        evicted = await client.start_load(LoadOrder(action=LoadAction.EVICT, paths=encode_paths([b"c"])))
        await until(lambda: master.cluster.loads.get(evicted.id).complete)
        assert module.Lister.opened[0].evicted == [[b"c"]]
        assert (await client.pins()).count == 0

    run(tmp_path, test)


def test_more_pins_than_one_answer_holds_come_one_page_after_the_other(
    tmp_path: Path, module: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "PINS_OF_A_PAGE", 2)
    paths = [b"a", b"b", b"c", b"d", b"e"]

    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        await client.start_load(LoadOrder(paths=encode_paths(paths), pin=True))
        assert await client.pins() == Pins(
            master.cluster.pin_board.pins.version, module.Lister.file_ids(None, paths)
        )

    run(tmp_path, test)


def test_what_was_ordered_survives_the_master(tmp_path: Path, module: SimpleNamespace) -> None:
    async def first(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        await client.heartbeat(heartbeat("w1"))
        await client.heartbeat(heartbeat("w2"))
        await client.drain("w1")
        await client.start_load(LoadOrder(paths=encode_paths([b"a"]), pin=True))

    async def second(master: Running, client: ControlClient) -> None:
        assert {row["id"] for row in (await client.status())["workers"]} == {"w1", "w2"}
        assert (await client.heartbeat(heartbeat("w1"))).order is HeartbeatOrder.DRAIN
        await until(lambda: len(module.Lister.opened) == 2 and bool(module.Lister.opened[1].jobs))
        assert module.Lister.opened[1].loads[0][0] == [b"a"]
        assert (await client.pins()).count == 1

    run(tmp_path, first)
    epoch = json.loads((tmp_path / "state.json").read_text().splitlines()[1])["membership"]
    assert '"epoch"' in epoch
    run(tmp_path, second)


def test_origins_that_do_not_answer_at_the_start_are_asked_again(
    tmp_path: Path, module: SimpleNamespace
) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.refresh_error is not None)
        status = await client.status()
        assert status["refresh_error"] == "the bucket does not answer"
        assert status["refresh_error_kind"] == "Unreachable"
        assert status["snapshot"] is None
        with pytest.raises(OriginUnreachableError, match="the bucket does not answer"):
            await client.refresh()
        (tmp_path / "unreachable").unlink()
        assert (await client.refresh()).version == 1
        assert (await client.status())["refresh_error"] is None

    (tmp_path / "unreachable").touch()
    run(tmp_path, test)


SIGNED = [
    ("POST", "/v1/heartbeat"),
    ("POST", "/v1/mounts"),
    ("GET", "/v1/view"),
    ("GET", "/v1/snapshot"),
    ("GET", "/v1/pins"),
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
        assert {route.path for route in _routes(master)} >= {path for _, path in SIGNED[:8]}

    run(tmp_path, test)


def _routes(master: Running) -> list[SimpleNamespace]:
    router = master.server._application.router
    return [SimpleNamespace(path=route.resource.canonical) for route in router.routes() if route.resource]


def test_a_body_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        async with aiohttp.ClientSession() as session:
            headers = {"Headrace-Time": "1", "Headrace-Nonce": "n", "Headrace-Signature": "v1=00"}
            body = io.BytesIO(b"x" * (LARGEST_BODY_BYTES + 1))
            async with session.post(master.url + "/v1/loads", data=body, headers=headers) as answer:
                assert answer.status == 413

    run(tmp_path, test)


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

    run(tmp_path, test)


def test_a_worker_registers_and_orders_nothing(tmp_path: Path) -> None:
    async def test(master: Running, _whole: ControlClient) -> None:
        async with master.client(derive(TOKEN, Rights.WORKER)) as worker:
            for ask in WORK.values():
                await ask(worker)
            await until(lambda: len(master.cluster.view.members) == 1)
            assert (await worker.outlook()).view is not None
            await refused(worker, ORDERS, "a worker's token", "the whole token")

    run(tmp_path, test)


def test_who_has_the_whole_token_may_do_everything(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        for ask in (*WORK.values(), *ORDERS.values()):
            with contextlib.suppress(MissingFileError, BusyError, ConfigError):  # there is no such load
                await ask(client)
        assert (await client.mount_heartbeat(mount_beat())).next_interval_s > 0
        assert not master.server.refused[Verdict.FORBIDDEN]

    run(tmp_path, test)


def test_a_wrong_token_is_told_in_words(tmp_path: Path) -> None:
    async def test(master: Running, _: ControlClient) -> None:
        async with master.client(SecretStr("another-token-0123456789")) as stranger:
            with pytest.raises(RefusedError, match="does not accept the token"):
                await stranger.heartbeat(heartbeat())
        async with master.client(None) as nobody:
            with pytest.raises(RefusedError, match="needs the token"):
                await nobody.heartbeat(heartbeat())
            assert (await nobody.status())["workers"] == []

    run(tmp_path, test)


def test_a_clock_that_differs_is_allowed_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        client._ahead_ms = 3_600_000
        await client.heartbeat(heartbeat())
        assert abs(client._ahead_ms) < 5000

    run(tmp_path, test)


@contextlib.asynccontextmanager
async def impostor(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("status", [200, 201, 302, 404, 409, 500])
def test_an_impostor_is_not_believed(status: int) -> None:
    """Somebody else answers with what the master would, signed by a token of his own."""

    async def test() -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            headers = {"Headrace-Signature": "v1=" + "0" * 64, "Location": "http://127.0.0.1:1/"}
            return web.json_response({"cluster": "shop", "epoch": 9}, status=status, headers=headers)

        async with impostor(answer) as url, ControlClient(url, TOKEN) as client:
            with pytest.raises(RefusedError, match="is not the master of this cluster"):
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

    run(tmp_path, test)


def test_a_snapshot_of_an_impostor_is_not_believed(tmp_path: Path) -> None:
    async def test(master: Running, _: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)

        async def answer(request: web.Request) -> web.StreamResponse:
            digest = hashlib.sha256(b"evil").hexdigest()
            headers = {"Headrace-Signature": "v1=" + "0" * 64, "Headrace-Digest": digest, "ETag": '"1-x"'}
            return web.Response(body=b"evil", headers=headers)

        note = master.cluster.shelf.newest
        assert note is not None
        async with impostor(answer) as url, ControlClient(url, TOKEN) as client:
            with pytest.raises(RefusedError):
                await fetch_snapshot(client, note.note, tmp_path / "mount")
        assert not list((tmp_path / "mount").glob("snapshot-*"))

    run(tmp_path, test)


def test_nothing_secret_is_told(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        await client.heartbeat(heartbeat())
        told = [json.dumps((await client.outlook()).model_dump()), json.dumps(await client.status())]
        for path in ("/metrics", "/", "/v1/status"):
            told.append((await asyncio.to_thread(masters.fetch, master.url + path)).decode())
        told += [path.read_text() for path in tmp_path.glob("state.json*")]
        assert not [text for text in told if "PLANTED" in text or TOKEN.get_secret_value() in text]

    run(tmp_path, test)


def test_status_and_metrics_tell_of_everybody(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        level = {"medium": "SSD", "quota_bytes": 1 << 30, "used_bytes": 300}
        await client.heartbeat(heartbeat("w1", cached_bytes=300, levels=[level]))
        mount = MountHeartbeat(
            id="m", instance="i", node="n", mountpoint="/mnt/<b>", traffic=Traffic(peer_bytes=5)
        )
        await client.mount_heartbeat(mount)
        await until(lambda: len(master.cluster.view.members) == 1)
        status = await client.status()
        assert (status["cached_bytes"], status["capacity_bytes"]) == (300, 1 << 30)
        assert status["workers"][0]["levels"] == [level]
        assert status["mounts"][0]["mountpoint"] == "/mnt/<b>"
        text = (await asyncio.to_thread(masters.fetch, master.url + "/metrics")).decode()
        assert 'headrace_master_workers{state="active"} 1.0\n' in text
        assert "headrace_master_cached_bytes 300.0\n" in text
        assert text.endswith("# EOF\n")
        refused = 'headrace_master_refused_requests_total{reason="forged"} 0.0\n'
        assert refused in text

    run(tmp_path, test)


def test_a_load_without_a_list_of_files_is_refused_for_now_and_says_why(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.has_tried)
        with pytest.raises(BusyError, match="no snapshot yet: the bucket does not answer"):
            await client.start_load(LoadOrder())
        assert master.cluster.loads.reports() == []
        (tmp_path / "unreachable").unlink()
        await client.refresh()
        assert (await client.start_load(LoadOrder())).state is LoadState.WAITING

    (tmp_path / "unreachable").touch()
    run(tmp_path, test)


def test_a_load_that_comes_before_the_first_list_begins_with_it(
    tmp_path: Path, module: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the load of a DataLoad whose master was started anew and lists a large bucket."""
    listing = threading.Event()
    refresh = module.Lister.refresh

    def slowly(lister: object) -> object:
        assert listing.wait(120)
        return refresh(lister)

    monkeypatch.setattr(module.Lister, "refresh", slowly)

    async def test(master: Running, client: ControlClient) -> None:
        report: LoadReport = await client.start_load(LoadOrder(paths=encode_paths([b"a"])))
        assert report.state is LoadState.WAITING
        listing.set()
        await until(lambda: module.Lister.opened[0].loads != [])
        await until(lambda: master.cluster.loads.get(report.id).state is not LoadState.WAITING)
        assert module.Lister.opened[0].loads[0][0] == [b"a"]
        assert len(module.Lister.opened[0].loads) == 1

    run(tmp_path, test)


def test_a_master_that_lost_its_state_at_once_uses_none_of_the_epochs_of_the_one_before(
    tmp_path: Path,
) -> None:
    """Within the same second: workers could not tell the two views of one epoch apart."""
    epochs: list[int] = []

    async def go() -> None:
        for folder in ("before", "after"):
            async with running_master(tmp_path / folder) as master, master.client() as client:

                async def is_published(
                    cluster: Cluster = master.cluster, ask: ControlClient = client
                ) -> bool:
                    await ask.heartbeat(heartbeat())
                    return cluster.view.epoch > 0

                await until(is_published)
                epochs.append(master.cluster.view.epoch)

    asyncio.run(go())
    before, after = epochs
    assert after > before

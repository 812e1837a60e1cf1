"""The master over real HTTP: loads and pins, ordered and followed."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from masters import Running, heartbeat, until, with_master

from headrace.control import messages
from headrace.control.client import ControlClient
from headrace.control.messages import (
    LoadAction,
    LoadOrder,
    LoadReport,
    LoadState,
    Pins,
    encode_paths,
)
from headrace.errors import BusyError, MissingFileError

pytestmark = pytest.mark.usefixtures("module")


def test_a_load_runs_is_shown_and_cancelled(tmp_path: Path, module: SimpleNamespace) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: bool(module.Lister.opened) and master.cluster.shelf.newest is not None)
        await client.heartbeat(heartbeat())
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

    with_master(tmp_path, test)


def test_loads_wait_for_their_places(tmp_path: Path, module: SimpleNamespace) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        await client.heartbeat(heartbeat())
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

    with_master(tmp_path, test)


def test_a_load_waits_for_the_first_worker_to_be_known(tmp_path: Path, module: SimpleNamespace) -> None:
    """A master that knows nobody would find that nothing can be loaded, and that all is evicted."""

    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.has_tried)
        early = await client.start_load(LoadOrder(action=LoadAction.EVICT))
        await client.start_load(LoadOrder())
        assert [report.state for report in await client.loads()] == [LoadState.WAITING] * 2
        await client.heartbeat(heartbeat())
        (lister,) = module.Lister.opened
        await until(lambda: len(lister.jobs) == 1 and master.cluster.loads.get(early.id).complete)

    with_master(tmp_path, test)


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

    with_master(tmp_path, test)


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

    with_master(tmp_path, test)


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
    with_master(tmp_path, test)


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
        await client.heartbeat(heartbeat())
        listing.set()
        await until(lambda: module.Lister.opened[0].loads != [])
        await until(lambda: master.cluster.loads.get(report.id).state is not LoadState.WAITING)
        assert module.Lister.opened[0].loads[0][0] == [b"a"]
        assert len(module.Lister.opened[0].loads) == 1

    with_master(tmp_path, test)

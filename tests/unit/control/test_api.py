"""The master over real HTTP on loopback, around the double of its engine: members, status, and what survives."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import masters
import pytest
from masters import Running, heartbeat, running_master, until, with_master

from headrace.control.client import ControlClient
from headrace.control.cluster import Cluster
from headrace.control.messages import (
    HeartbeatOrder,
    LoadOrder,
    MountHeartbeat,
    Traffic,
    WorkerState,
    encode_paths,
)
from headrace.errors import BusyError, ConfigError, RefusedError

pytestmark = pytest.mark.usefixtures("module")


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

    with_master(tmp_path, test)


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

    with_master(tmp_path, test)


def test_a_master_that_has_just_begun_has_no_news_for_those_who_go_by_an_earlier_view(
    tmp_path: Path, module: SimpleNamespace
) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        # Nor has it any before it has listed its origins: that it has no snapshot is no other one.
        early = asyncio.create_task(
            client.outlook(after_epoch=900, after_snapshot="7-0123456789abcdef", wait_s=25)
        )
        await until(lambda: master.cluster.shelf.newest is not None)
        assert (await early).snapshot is not None
        told = await client.outlook()
        assert (told.epoch, told.published_view) == (0, None)
        assert told.snapshot is not None
        polling = asyncio.create_task(
            client.outlook(after_epoch=900, after_snapshot=told.snapshot.tag, wait_s=25)
        )
        known = {"known_epoch": 900, "joined_epoch": 1, "known_members": 2}
        assert (await client.heartbeat(heartbeat("w1", **known))).outlook.view is None
        assert master.cluster.view.epoch == 0 and not polling.done()

        async def both_are_listed() -> bool:
            for name in ("w1", "w2"):
                await client.heartbeat(heartbeat(name, **known))
            return master.cluster.view.epoch > 0

        await until(both_are_listed)
        view = (await polling).published_view
        assert view is not None and [member["id"] for member in view["members"]] == ["w1", "w2"]

    with_master(tmp_path, test, dead_after_s=1.5)


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

    with_master(tmp_path, test, dead_after_s=2.0)


def test_a_planner_gets_the_status_in_short_and_proven(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await client.heartbeat(heartbeat("w1"))
        report, status = await client.report(), await client.status()
        assert [each.id for each in report.workers] == [each["id"] for each in status["workers"]] == ["w1"]
        assert report.capacity_bytes == status["capacity_bytes"]
        assert set(report.model_dump()) <= set(status)
        async with ControlClient(master.url, None) as nobody:
            with pytest.raises(RefusedError, match="needs the token"):
                await nobody.report()

    with_master(tmp_path, test)


def test_a_worker_of_other_origins_is_refused(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        with pytest.raises(ConfigError, match="has other origins"):
            await client.heartbeat(heartbeat("w1", dataset="0" * 32))
        with pytest.raises(ConfigError, match="cannot be listed"):
            await client.heartbeat(heartbeat("w1", address="nobody"))

    with_master(tmp_path, test)


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

    with_master(tmp_path, test)


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

    with_master(tmp_path, first)
    epoch = json.loads((tmp_path / "state.json").read_text().splitlines()[1])["membership"]
    assert '"epoch"' in epoch
    with_master(tmp_path, second)


def test_status_and_metrics_tell_of_everybody(tmp_path: Path) -> None:
    async def test(master: Running, client: ControlClient) -> None:
        await until(lambda: master.cluster.shelf.newest is not None)
        level = {"medium": "SSD", "quota_bytes": 1 << 30, "used_bytes": 300, "trouble": "disk-full"}
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

    with_master(tmp_path, test)


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

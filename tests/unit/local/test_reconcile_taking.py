"""Steps of a plan taken: when to look again afterwards."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from planned import SEED, World

from headrace.local.database import Database
from headrace.local.folders import Folders
from headrace.local.nodes import VirtualNode
from headrace.local.places import Places
from headrace.local.reconcile.places import Addresses, DatasetPlaces
from headrace.local.reconcile.rendering import Means
from headrace.local.reconcile.scene import Scene
from headrace.local.reconcile.taking import Hands
from headrace.local.reconcile.troubles import Troubles
from headrace.local.roles import RoleOrder, RoleRecord, Roles
from headrace.plan.outcome import Plan
from headrace.settings.environment import Environment

KEY = ("default", "imagenet")
NOW = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture
def node(tmp_path: Path) -> VirtualNode:
    return VirtualNode("node-1", 0, "127.0.0.1", {}, tmp_path / "nodes" / "node-1", None, None, is_made=True)


@pytest.fixture
def held() -> Plan:
    world = World.of(SEED)
    world.see(secrets={})
    made = world.plan()
    assert made.holds
    return made


def hands_of(database: Database, node: VirtualNode, roles: Roles, tmp_path: Path) -> Hands:
    places = DatasetPlaces(Places(tmp_path / "local"), KEY)
    means = Means(places, Addresses(database), Folders(database), Scene(KEY, ()))
    return Hands(database.instance, means, roles, [node], Troubles(database))


def ended_role(node: VirtualNode, tmp_path: Path) -> RoleRecord:
    command = (sys.executable, "-c", "import time; time.sleep(60)")
    order = RoleOrder("default.imagenet.worker-0", *KEY, "worker", node.name, command, str(tmp_path / "log"))
    return RoleRecord(order, state="ended", since="2026-01-31T00:00:00Z", starts=1, exit_code=-9)


def test_a_role_that_was_started_anew_is_soon_looked_at(
    database: Database, node: VirtualNode, held: Plan, tmp_path: Path
) -> None:
    async def take() -> float | None:
        roles = Roles(database, Environment.current())
        roles._write(ended_role(node, tmp_path))
        wait_s = await hands_of(database, node, roles, tmp_path).take(held, NOW)
        (record,) = roles.all()
        assert record.state == "running"
        await roles.stop(record.order.id)
        return wait_s

    assert asyncio.run(take()) == pytest.approx(0.5)


def test_a_role_that_cannot_be_started_is_tried_again_when_it_may_be(
    database: Database, node: VirtualNode, tmp_path: Path
) -> None:
    world = World.of(SEED)
    planned = world.plan()
    master = dataclasses.replace(planned.roles[0], node="node-9")
    assert planned.steps.start == (master.id,)

    async def take() -> float | None:
        hands = hands_of(database, node, Roles(database, Environment.current()), tmp_path)
        return await hands.take(dataclasses.replace(planned, roles=(master,)), NOW)

    assert asyncio.run(take()) == pytest.approx(0.5)

"""Steps of a plan taken: when to look again afterwards."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from planned import SEED, World

from headrace.local.datasets.dataset_layout import Addresses, DatasetLayout
from headrace.local.datasets.desired_state import DesiredState
from headrace.local.datasets.rendering import RenderContext
from headrace.local.layout import BackendLayout
from headrace.local.nodes.managed_folders import ManagedFolders
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.processes.role_processes import RoleOrder, RoleProcesses, RoleRecord
from headrace.local.reconcile.back_off import StartBackOff
from headrace.local.reconcile.executor import Executor
from headrace.local.store.database import Database
from headrace.plan.outcome import Plan
from headrace.settings.environment import Environment

KEY = ("default", "imagenet")
NOW = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture
def node(tmp_path: Path) -> VirtualNode:
    return VirtualNode("node-1", 0, "127.0.0.1", {}, tmp_path / "nodes" / "node-1", None, None, is_made=True)


@pytest.fixture
def held() -> Plan:
    context = World.of(SEED)
    context.see(secrets={})
    made = context.plan()
    assert made.holds
    return made


def hands_of(database: Database, node: VirtualNode, roles: RoleProcesses, tmp_path: Path) -> Executor:
    layout = DatasetLayout(BackendLayout(tmp_path / "local"), KEY)
    render_context = RenderContext(
        layout, Addresses(database), ManagedFolders(database), DesiredState(KEY, ())
    )
    return Executor(database.instance, render_context, roles, [node], StartBackOff(database))


def ended_role(node: VirtualNode, tmp_path: Path) -> RoleRecord:
    command = (sys.executable, "-c", "import time; time.sleep(60)")
    order = RoleOrder("default.imagenet.worker-0", *KEY, "worker", node.name, command, str(tmp_path / "log"))
    return RoleRecord(order, state="ended", since="2026-01-31T00:00:00Z", starts=1, exit_code=-9)


def test_a_role_that_was_started_anew_is_soon_looked_at(
    database: Database, node: VirtualNode, held: Plan, tmp_path: Path
) -> None:
    async def take() -> float | None:
        roles = RoleProcesses(database, Environment.current())
        roles._write(ended_role(node, tmp_path))
        wait_s = await hands_of(database, node, roles, tmp_path).execute(held, NOW)
        (record,) = roles.all()
        assert record.state == "running"
        await roles.stop(record.order.id)
        return wait_s

    assert asyncio.run(take()) == pytest.approx(0.5)


def test_a_role_that_cannot_be_started_is_tried_again_when_it_may_be(
    database: Database, node: VirtualNode, tmp_path: Path
) -> None:
    context = World.of(SEED)
    planned = context.plan()
    master = dataclasses.replace(planned.roles[0], node="node-9")
    assert planned.steps.start == (master.id,)

    async def take() -> float | None:
        executor = hands_of(database, node, RoleProcesses(database, Environment.current()), tmp_path)
        return await executor.execute(dataclasses.replace(planned, roles=(master,)), NOW)

    assert asyncio.run(take()) == pytest.approx(0.5)

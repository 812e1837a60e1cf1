"""Steps of a plan: processes started, replaced, drained and ended. Each may be cut off, and is taken again then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.control.client import ControlClient
from headrace.control.cluster_token import read_token
from headrace.errors import EngineError, HeadraceError, MissingFileError
from headrace.local.datasets.rendering import RenderContext, cache_folders_of, master_url, render
from headrace.local.nodes.managed_folders import remove_tree
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.processes.process_tags import end_all
from headrace.local.processes.role_processes import RoleProcesses, RoleRecord
from headrace.local.reconcile.back_off import StartBackOff
from headrace.plan.outcome import Plan
from headrace.plan.roles import Role
from headrace.roles.mountpoint.detaching import detach, device_at

_log = logging.getLogger("headrace.local")

STARTING_S = 0.5
"""When to reconcile again after something was started."""
_GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Executor:
    """The executor of one dataset's steps. Used from one event loop."""

    instance: str
    render_context: RenderContext
    roles: RoleProcesses
    nodes: Sequence[VirtualNode]
    back_off: StartBackOff

    async def execute(self, plan: Plan, now: datetime) -> float | None:
        """Takes all steps that may be taken now; seconds until something of it is to be seen, or done again."""
        wanted = {role.id: role for role in plan.roles}
        await self._stop(plan.steps.stop, keep_cache=False)
        await self._drain(plan.steps.drain)
        waits = [await self._replace(wanted[each], now) for each in plan.steps.replace]
        waits += [await self._start(wanted[each], now) for each in plan.steps.start]
        waits += [await self._revive(record, wanted, plan, now) for record in self._ended(plan)]
        waits += [await self._start(role, now) for role in self._never_started(plan)]
        left = [wait for wait in waits if wait is not None]
        return min(left) if left else None

    async def clear(self) -> None:
        """Takes away the files of a dataset that has no roles any more, and what a stop that was cut off left."""
        if not self.render_context.layout.folder.exists():
            return
        for settings in self.render_context.layout.folder.glob("roles/*/settings.yaml"):
            await self._drop(settings.parent.name)
        await asyncio.to_thread(remove_tree, self.render_context.layout.folder)

    async def _start(self, role: Role, now: datetime) -> float | None:
        order_id = self.render_context.layout.order_id(role.id)
        left = self.back_off.left_s(order_id, now)
        if left:
            return left
        record = self.roles.get(order_id)
        node = self._node_for(role, record)
        try:
            if node is None:
                raise MissingFileError.of(
                    f"there is no node {role.node or 'yet'}", hint="headrace up --nodes N"
                )
            await self._clear_leftovers(record)
            order = await asyncio.to_thread(render, role, node, self.render_context)
            self.roles.start(order, node.prefix)
        except HeadraceError as error:
            return self._failed(role, error, now)
        except OSError as error:
            return self._failed(role, EngineError.of(f"its process cannot be started: {error.strerror}"), now)
        return STARTING_S

    async def _replace(self, role: Role, now: datetime) -> float | None:
        order_id = self.render_context.layout.order_id(role.id)
        if self.roles.get(order_id) is not None:
            await self._stop([role.id], keep_cache=True)
        self.back_off.forget(order_id)
        return await self._start(role, now)

    async def _drain(self, role_ids: Sequence[str]) -> None:
        master = master_url(self.render_context.layout, self.render_context.addresses)
        if not role_ids or master is None:
            return
        token = await asyncio.to_thread(read_token, self.render_context.layout.token)
        async with ControlClient(master, token) as client:
            for role_id in role_ids:
                try:
                    await client.drain(role_id)
                except HeadraceError as error:
                    _log.warning(
                        "role/%s: cannot be drained yet: %s",
                        self.render_context.layout.order_id(role_id),
                        error,
                    )

    async def _stop(self, role_ids: Sequence[str], *, keep_cache: bool) -> None:
        await asyncio.gather(*(self._stop_one(each, keep_cache=keep_cache) for each in role_ids))

    async def _stop_one(self, role_id: str, *, keep_cache: bool) -> None:
        layout = self.render_context.layout
        order_id = layout.order_id(role_id)
        record = self.roles.get(order_id)
        if record is not None:
            await self.roles.stop(order_id, grace_s=_GRACE_S)
            await asyncio.to_thread(self._take_off, record, last=not keep_cache)
        self.back_off.forget(order_id)
        if not keep_cache:
            await self._drop(role_id)

    async def _drop(self, role_id: str) -> None:
        """Takes away what a role had: its caches before the file that names them."""
        layout = self.render_context.layout
        for folder in cache_folders_of(layout.settings(role_id)):
            await asyncio.to_thread(self.render_context.folders.drop, folder)
        self.render_context.addresses.give_back(layout.order_id(role_id))
        await asyncio.to_thread(remove_tree, layout.role(role_id))
        await asyncio.to_thread(remove_tree, layout.state(role_id))

    async def _revive(
        self, record: RoleRecord, wanted: dict[str, Role], plan: Plan, now: datetime
    ) -> float | None:
        """Starts a role anew that ended by itself and is to run as it was."""
        role = wanted.get(self.role_id(record))
        if role is not None:
            return await self._start(role, now)
        if not plan.holds:
            return None
        left = self.back_off.left_s(record.order.id, now)
        node = self._node(record.order.node)
        if left or node is None:
            return left or None
        await self._clear_leftovers(record)
        self.roles.start(record.order, node.prefix)
        return STARTING_S

    async def _clear_leftovers(self, record: RoleRecord | None) -> None:
        """What an ended role had started goes on without it, and its mount stays."""
        if record is not None:
            await asyncio.to_thread(end_all, self.instance, [record.order.id], grace_s=0.0)
            await asyncio.to_thread(self._take_off, record)

    def _ended(self, plan: Plan) -> list[RoleRecord]:
        """What ended by itself and no step of the plan is about."""
        steps = plan.steps
        about = {*steps.start, *steps.replace, *steps.drain, *steps.stop}
        return [
            record
            for record in self.roles.all()
            if self.is_of_dataset(record) and record.state == "ended" and self.role_id(record) not in about
        ]

    def _never_started(self, plan: Plan) -> list[Role]:
        """What failed before there was a process."""
        steps = plan.steps
        about = {*steps.start, *steps.replace, *steps.drain, *steps.stop}
        failed = [
            role for role in plan.roles if self.back_off.find(self.render_context.layout.order_id(role.id))
        ]
        return [
            role
            for role in failed
            if role.id not in about and self.roles.get(self.render_context.layout.order_id(role.id)) is None
        ]

    def is_of_dataset(self, record: RoleRecord) -> bool:
        """True for a role of this dataset."""
        return (
            record.order.namespace,
            record.order.dataset,
        ) == self.render_context.layout.key and record.order.kind != "job"

    def role_id(self, record: RoleRecord) -> str:
        """The planner's name of a role."""
        return record.order.id.removeprefix(self.render_context.layout.order_id(""))

    def _failed(self, role: Role, error: HeadraceError, now: datetime) -> float:
        """Notes it; seconds until the next try."""
        order_id = self.render_context.layout.order_id(role.id)
        _log.warning("role/%s: cannot be started: %s", order_id, error)
        self.back_off.note_start(order_id, error, role.version, role.node, now)
        return self.back_off.left_s(order_id, now)

    def _node_for(self, role: Role, record: RoleRecord | None) -> VirtualNode | None:
        """The node of a role; one that may run anywhere stays where it was."""
        if role.node is not None:
            return self._node(role.node)
        before = self._node(record.order.node) if record else None
        return before or next((node for node in self.nodes if node.is_made), None)

    def _node(self, name: str) -> VirtualNode | None:
        return next((node for node in self.nodes if node.name == name), None)

    def _take_off(self, record: RoleRecord, *, last: bool = False) -> None:
        """What a mount left behind that could not end in order; its folder goes with the `last` one. Blocks."""
        node = self._node(record.order.node)
        if record.order.kind != "mount" or node is None:
            return
        mountpoint = self.render_context.layout.mountpoint(node)
        device = device_at(str(mountpoint))
        if device is not None:
            detach(str(mountpoint), device)
        if last and device_at(str(mountpoint)) is None and mountpoint.is_dir():
            mountpoint.rmdir()

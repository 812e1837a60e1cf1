"""Takes the steps that were decided for a job. Each may be taken again; what takes time is done beside the looks."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial

from headrace.errors import ConfigError, EngineError
from headrace.local.marks import mark_of
from headrace.local.roles import RoleOrder
from headrace.local.training.data import JobData
from headrace.local.training.furnishing import Furnisher
from headrace.local.training.notes import JobNotes
from headrace.local.training.places import JobPlaces
from headrace.local.training.records import Instance, JobRecord, role_id, role_prefix
from headrace.local.training.sights import End, Forget, Hold, Release, Start, Step
from headrace.local.training.volumes import datasets_of, files_of, folders_of
from headrace.local.uses import Use
from headrace.local.world import World

_log = logging.getLogger("headrace.local")

_PROGRAM = (sys.executable, "-P", "-m", "headrace.local.training.instance")
GRACE_S = 25.0
"""How long programs have to end after they were asked to."""


class Hands:
    """What can be done for jobs. Used from one event loop."""

    def __init__(self, world: World, notes: JobNotes, data: JobData, on_end: Callable[[str], None]) -> None:
        """`on_end` is called with the identity of a job when what took time for it is done."""
        self._world = world
        self._notes = notes
        self._data = data
        self._on_end = on_end
        self._ending: dict[str, asyncio.Task[None]] = {}

    async def take(self, record: JobRecord, steps: Iterable[Step]) -> None:
        """Takes them in their order. Raises what a person has to put right; no error has a secret."""
        for step in steps:
            match step:
                case Hold():
                    await self._hold(record)
                case Start(name):
                    await self._start(record, name)
                case End(names):
                    self._end(record, names)
                case Release():
                    await self._release(record)
                case Forget():
                    await asyncio.to_thread(self._notes.strike, record.uid)
                    _log.info("%s/%s: is deleted", record.spec.kind.value, record.title)

    async def close(self) -> None:
        """Ends what is under way here; processes go on."""
        tasks = list(self._ending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def uses_of(self, uid: str) -> list[str]:
        """The ids of what a job uses on its nodes."""
        prefix = f"{role_prefix(uid)}on:"
        return [use.id for use in self._world.uses.all() if use.id.startswith(prefix)]

    async def furnisher(self, record: JobRecord) -> Furnisher:
        """What makes the orders of the job's instances. Raises when a node or what was asked for is gone."""
        volumes = await self._data.volumes(record.spec)
        nodes = {node.name: node for node in await asyncio.to_thread(self._world.nodes.all)}
        if any(each.node not in nodes for each in record.instances):
            raise ConfigError.of(f"a node of job {record.title} is gone")
        network = await asyncio.to_thread(self._world.nodes.network)
        return Furnisher(
            record=record,
            spec=await asyncio.to_thread(self._notes.spec, record.uid),
            places=JobPlaces(self._world.places, record.uid),
            nodes=nodes,
            volumes=volumes,
            subnet=network.subnet if network is not None and network.switch else "",
            mark=mark_of(self._world.database.instance, role_prefix(record.uid)),
            environment=self._world.environment,
            is_apart=os.geteuid() == 0,
        )

    async def _hold(self, record: JobRecord) -> None:
        keys = datasets_of(await self._data.volumes(record.spec))
        is_apart = os.geteuid() == 0
        wanted = {
            f"{role_prefix(record.uid)}on:{node}": Use(
                id=f"{role_prefix(record.uid)}on:{node}",
                title=f"{record.spec.kind.value} {record.title}",
                node=node,
                datasets=keys,
                paths=(),
                folders=tuple(folders_of(record.spec)) if is_apart else (),
                files=tuple(files_of(record.spec)) if is_apart else (),
            )
            for node in record.nodes
        }
        for use_id in self.uses_of(record.uid):
            if use_id not in wanted:
                self._world.uses.end(use_id)
        for use in wanted.values():
            if self._world.uses.get(use.id) != use:
                self._world.uses.begin(use)

    async def _start(self, record: JobRecord, name: str) -> None:
        instance = record.find(name)
        role = role_id(record.uid, name)
        present = self._world.roles.get(role)
        if instance is None or (present is not None and present.state == "running"):
            return
        furnisher = await self.furnisher(record)
        await asyncio.to_thread(furnisher.furnish, instance)
        order = self._order(record, instance, furnisher)
        try:
            self._world.roles.start(order, furnisher.nodes[instance.node].prefix)
        except OSError as error:
            raise EngineError.of(f"the process of {name} cannot be started: {error.strerror}") from None

    def _order(self, record: JobRecord, instance: Instance, furnisher: Furnisher) -> RoleOrder:
        folder = furnisher.places.instance(instance.name)
        return RoleOrder(
            id=role_id(record.uid, instance.name),
            namespace=record.spec.namespace,
            dataset=record.spec.name,
            kind="job",
            node=instance.node,
            command=(*_PROGRAM, str(folder)),
            log_file=str(folder / "process.log"),
            version=record.run,
        )

    def _end(self, record: JobRecord, names: Iterable[str]) -> None:
        """Ends instances beside the looks: programs may take their time."""
        for name in names:
            role = role_id(record.uid, name)
            if role in self._ending:
                continue
            task = asyncio.create_task(self._world.roles.stop(role, grace_s=GRACE_S))
            self._ending[role] = task
            task.add_done_callback(partial(self._ended, record.uid, role))

    def _ended(self, uid: str, role: str, task: asyncio.Task[None]) -> None:
        self._ending.pop(role, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("role/%s: cannot be ended: %s", role, task.exception())
        self._on_end(uid)

    async def _release(self, record: JobRecord) -> None:
        """Gives up data and secrets. Only a job that has ended for good is released."""
        for use_id in self.uses_of(record.uid):
            self._world.uses.end(use_id)
        for instance in record.instances:
            if self._world.roles.get(role_id(record.uid, instance.name)) is not None:
                self._world.roles.forget(role_id(record.uid, instance.name))
        await asyncio.to_thread(self._notes.drop_secrets, record.uid)

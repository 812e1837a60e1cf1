"""Takes the steps that were decided for a job. Each may be taken again; what takes time is done beside the passes."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial

from headrace.errors import ConfigError, EngineError
from headrace.local.context import BackendContext
from headrace.local.jobs.instance_setup import InstanceSetup
from headrace.local.jobs.job_data import JobData
from headrace.local.jobs.job_layout import JobLayout
from headrace.local.jobs.job_records import Instance, JobRecord, role_id, role_prefix
from headrace.local.jobs.job_store import JobStore
from headrace.local.jobs.job_volumes import datasets_of, files_of, folders_of
from headrace.local.jobs.observed_state import End, Forget, Hold, Release, Start, Step
from headrace.local.processes.consumers import Consumer
from headrace.local.processes.process_tags import tag_of
from headrace.local.processes.role_processes import RoleOrder

_log = logging.getLogger("headrace.local")

_PROGRAM = (sys.executable, "-P", "-m", "headrace.local.jobs.instance_process")
GRACE_S = 25.0
"""How long programs have to end after they were asked to."""


class JobExecutor:
    """The executor of steps for jobs. Used from one event loop."""

    def __init__(
        self, context: BackendContext, job_store: JobStore, data: JobData, on_end: Callable[[str], None]
    ) -> None:
        """`on_end` is called with the identity of a job when what took time for it is done."""
        self._context = context
        self._job_store = job_store
        self._data = data
        self._on_end = on_end
        self._ending: dict[str, asyncio.Task[None]] = {}

    async def execute(self, record: JobRecord, steps: Iterable[Step]) -> None:
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
                    await asyncio.to_thread(self._job_store.strike, record.uid)
                    _log.info("%s/%s: is deleted", record.spec.kind.value, record.title)

    async def close(self) -> None:
        """Ends what is under way here; processes go on."""
        tasks = list(self._ending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def consumers_of(self, uid: str) -> list[str]:
        """The ids of what a job uses on its nodes."""
        prefix = f"{role_prefix(uid)}on:"
        return [consumer.id for consumer in self._context.consumers.all() if consumer.id.startswith(prefix)]

    async def instance_setup(self, record: JobRecord) -> InstanceSetup:
        """The maker of the specs of the job's instances. Raises when a node or what was asked for is gone."""
        volumes = await self._data.volumes(record.spec)
        nodes = {node.name: node for node in await asyncio.to_thread(self._context.nodes.all)}
        if any(each.node not in nodes for each in record.instances):
            raise ConfigError.of(f"a node of job {record.title} is gone")
        network = await asyncio.to_thread(self._context.nodes.network)
        return InstanceSetup(
            record=record,
            spec=await asyncio.to_thread(self._job_store.spec, record.uid),
            layout=JobLayout(self._context.layout, record.uid),
            nodes=nodes,
            volumes=volumes,
            subnet=network.subnet if network is not None and network.switch else "",
            mark=tag_of(self._context.database.instance, role_prefix(record.uid)),
            environment=self._context.environment,
            is_apart=os.geteuid() == 0,
        )

    async def _hold(self, record: JobRecord) -> None:
        keys = datasets_of(await self._data.volumes(record.spec))
        is_apart = os.geteuid() == 0
        wanted = {
            f"{role_prefix(record.uid)}on:{node}": Consumer(
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
        for consumer_id in self.consumers_of(record.uid):
            if consumer_id not in wanted:
                self._context.consumers.end(consumer_id)
        for consumer in wanted.values():
            if self._context.consumers.get(consumer.id) != consumer:
                self._context.consumers.begin(consumer)

    async def _start(self, record: JobRecord, name: str) -> None:
        instance = record.find(name)
        role = role_id(record.uid, name)
        present = self._context.roles.get(role)
        if instance is None or (present is not None and present.state == "running"):
            return
        instance_setup = await self.instance_setup(record)
        await asyncio.to_thread(instance_setup.set_up, instance)
        order = self._order(record, instance, instance_setup)
        try:
            self._context.roles.start(order, instance_setup.nodes[instance.node].prefix)
        except OSError as error:
            raise EngineError.of(f"the process of {name} cannot be started: {error.strerror}") from None

    def _order(self, record: JobRecord, instance: Instance, instance_setup: InstanceSetup) -> RoleOrder:
        folder = instance_setup.layout.instance(instance.name)
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
        """Ends instances beside the passes: programs may take their time."""
        for name in names:
            role = role_id(record.uid, name)
            if role in self._ending:
                continue
            task = asyncio.create_task(self._context.roles.stop(role, grace_s=GRACE_S))
            self._ending[role] = task
            task.add_done_callback(partial(self._ended, record.uid, role))

    def _ended(self, uid: str, role: str, task: asyncio.Task[None]) -> None:
        self._ending.pop(role, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("role/%s: cannot be ended: %s", role, task.exception())
        self._on_end(uid)

    async def _release(self, record: JobRecord) -> None:
        """Gives up data and secrets. Only a job that has ended for good is released."""
        for consumer_id in self.consumers_of(record.uid):
            self._context.consumers.end(consumer_id)
        for instance in record.instances:
            if self._context.roles.get(role_id(record.uid, instance.name)) is not None:
                self._context.roles.forget(role_id(record.uid, instance.name))
        await asyncio.to_thread(self._job_store.drop_secrets, record.uid)

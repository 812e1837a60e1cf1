"""The world as one job sees it: gathered anew at each pass, by asking and never by waiting long."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.jobs.ranks import MASTER_PORT
from headrace.jobs.spec import JobKind, JobSpec
from headrace.local.context import BackendContext
from headrace.local.jobs.instance_spec import STATE_FILE, InstanceReport, read_instance_report
from headrace.local.jobs.job_data import JobData
from headrace.local.jobs.job_layout import JobLayout
from headrace.local.jobs.job_records import JobRecord, Stage, role_id, role_prefix
from headrace.local.jobs.observed_state import InstanceObservation, ObservedState, ProcessState
from headrace.local.jobs.replicas import Replica, replicas_of
from headrace.local.jobs.scheduler import Placement, schedule
from headrace.local.nodes.node_capacity import is_ready
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.processes.process_tags import tagged_processes
from headrace.local.processes.role_processes import RoleRecord

_LAST_PORT = 32_000


@dataclass(frozen=True, slots=True)
class JobObserver:
    """The observer of a job. Used from one event loop."""

    context: BackendContext
    data: JobData

    async def observe(self, record: JobRecord, fault: str, others: Iterable[JobRecord]) -> ObservedState:
        """Everything that the next step of a job depends on; `fault` is what was wrong with the last steps."""
        nodes = await asyncio.to_thread(self.context.nodes.all)
        cold, placement, unmounted = "", None, ""
        if record.stage is Stage.WAITING and not record.is_leaving:
            cold = await self._held_back(record)
            placement = None if cold else await self._placement(record, nodes, others)
        elif record.stage is Stage.PREPARING and not record.is_leaving:
            unmounted = await self._unmounted(record, nodes)
        return ObservedState(
            instances=await asyncio.to_thread(self._instances, record),
            ready_nodes=frozenset(node.name for node in nodes if is_ready(node)),
            cold=cold,
            placement=placement,
            fault=fault,
            is_released=self._is_released(record),
            unmounted=unmounted,
        )

    async def _held_back(self, record: JobRecord) -> str:
        """What keeps the job from its next attempt. One that had begun goes on with what it uses already."""
        leaving = "" if record.attempt else await self.data.leaving(record.spec)
        return leaving or await self.data.cold(record.spec)

    async def _placement(
        self, record: JobRecord, nodes: Sequence[VirtualNode], others: Iterable[JobRecord]
    ) -> Placement:
        replicas = replicas_of(record.spec, record.uid, record.attempt + 1)
        placed = schedule(record.spec, replicas, await self.data.sites(record.spec))
        if placed.problem:
            return placed
        addresses = {node.name: node.address for node in nodes}
        taken = {(each.address, each.port) for other in others for each in other.instances if each.port}
        known = {node.name: node for node in nodes}
        ports = ports_of(record.spec, replicas, placed.nodes, known, taken)
        return replace(placed, addresses=addresses, ports=ports)

    def _is_released(self, record: JobRecord) -> bool:
        prefix = role_prefix(record.uid)
        consumers = any(consumer.id.startswith(prefix) for consumer in self.context.consumers.all())
        return not consumers and not JobLayout(self.context.layout, record.uid).spec.exists()

    async def _unmounted(self, record: JobRecord, nodes: Sequence[VirtualNode]) -> str:
        own = [node for node in nodes if node.name in record.nodes]
        return await self.data.unmounted(await self.data.volumes(record.spec), own)

    def _instances(self, record: JobRecord) -> Mapping[str, InstanceObservation]:
        """Blocks for as long as reading a few files takes."""
        layout = JobLayout(self.context.layout, record.uid)
        roles = {
            each.name: self.context.roles.get(role_id(record.uid, each.name)) for each in record.instances
        }
        left: set[str] = set()
        if any(role is not None and role.state == "ended" for role in roles.values()):
            left = {each.role for each in tagged_processes(self.context.database.instance)}
        return {
            each.name: observe_instance(
                record.run,
                roles[each.name],
                read_instance_report(layout.instance(each.name) / STATE_FILE),
                is_left=role_id(record.uid, each.name) in left,
            )
            for each in record.instances
        }


def observe_instance(
    run: str, role: RoleRecord | None, report: InstanceReport | None, *, is_left: bool
) -> InstanceObservation:
    """How an instance stands in the attempt `run`, from its process and from what it said last. Pure."""
    said = report if report is not None and report.run == run else None
    if role is not None and role.order.version != run:
        # Of an attempt before: nothing begins until it is gone.
        return InstanceObservation(ProcessState.ABSENT, has_leftovers=role.state != "ended" or is_left)
    if role is not None and role.state != "ended":
        return InstanceObservation(
            ProcessState.UP if said is not None and said.state == "up" else ProcessState.STARTING
        )
    if said is None:
        return InstanceObservation(ProcessState.ABSENT, has_leftovers=is_left)
    if said.state == "ended":
        return InstanceObservation(
            ProcessState.ENDED,
            said.exit_code,
            said.message,
            has_leftovers=is_left,
            is_out_of_memory=said.is_out_of_memory,
        )
    return InstanceObservation(ProcessState.LOST, has_leftovers=is_left)


def ports_of(
    spec: JobSpec,
    replicas: Sequence[Replica],
    placed: Mapping[str, str],
    nodes: Mapping[str, VirtualNode],
    taken: set[tuple[str, int]],
) -> dict[str, int]:
    """A port for each process that others reach: as its role asks, else one that is free. MPI finds its own."""
    if spec.kind is JobKind.MPI:
        return {}
    found: dict[str, int] = {}
    used = set(taken)
    for replica in replicas:
        node, role = nodes[placed[replica.name]], spec.role(replica.role)
        first = role.port if role is not None and role.port else MASTER_PORT
        port = next(
            each
            for each in range(first, max(_LAST_PORT, first + 1000))
            if (node.address, each) not in used and _is_free(node, each)
        )
        used.add((node.address, port))
        found[replica.name] = port
    return found


def _is_free(node: VirtualNode, port: int) -> bool:
    """In a namespace of ours nobody else listens."""
    if node.namespace is not None:
        return True
    with socket.socket() as probe:
        try:
            probe.bind((node.address, port))
        except OSError:
            return False
    return True

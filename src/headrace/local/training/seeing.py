"""The world as one job sees it: gathered anew at each look, by asking and never by waiting long."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.jobs.ranks import MASTER_PORT
from headrace.jobs.spec import JobKind, JobSpec
from headrace.local.marks import marked_processes
from headrace.local.nodes import VirtualNode
from headrace.local.roles import RoleRecord
from headrace.local.training.data import JobData
from headrace.local.training.orders import STATE_FILE, InstanceNews, read_news
from headrace.local.training.places import JobPlaces
from headrace.local.training.placing import Placement, place
from headrace.local.training.records import JobRecord, Stage, role_id, role_prefix
from headrace.local.training.shaping import Post, posts_of
from headrace.local.training.sights import InstanceSight, Seen, Sight
from headrace.local.world import World

_LAST_PORT = 32_000
_NAMESPACES = Path("/run/netns")


@dataclass(frozen=True, slots=True)
class Eyes:
    """What a job is seen with. Used from one event loop."""

    world: World
    data: JobData

    async def look(self, record: JobRecord, fault: str, others: Iterable[JobRecord]) -> Seen:
        """Everything that the next step of a job depends on; `fault` is what was wrong with the last steps."""
        nodes = await asyncio.to_thread(self.world.nodes.all)
        cold, placement, unmounted = "", None, ""
        if record.stage is Stage.WAITING and not record.is_leaving:
            cold = await self.data.cold(record.spec)
            placement = None if cold else await self._placement(record, nodes, others)
        elif record.stage is Stage.PREPARING and not record.is_leaving:
            unmounted = await self._unmounted(record, nodes)
        return Seen(
            instances=await asyncio.to_thread(self._instances, record),
            ready_nodes=frozenset(node.name for node in nodes if is_ready(node)),
            cold=cold,
            placement=placement,
            fault=fault,
            is_released=self._is_released(record),
            unmounted=unmounted,
        )

    async def _placement(
        self, record: JobRecord, nodes: Sequence[VirtualNode], others: Iterable[JobRecord]
    ) -> Placement:
        posts = posts_of(record.spec, record.uid, record.attempt + 1)
        placed = place(record.spec, posts, await self.data.sites(record.spec))
        if placed.problem:
            return placed
        addresses = {node.name: node.address for node in nodes}
        taken = {(each.address, each.port) for other in others for each in other.instances if each.port}
        known = {node.name: node for node in nodes}
        ports = ports_of(record.spec, posts, placed.nodes, known, taken)
        return replace(placed, addresses=addresses, ports=ports)

    def _is_released(self, record: JobRecord) -> bool:
        prefix = role_prefix(record.uid)
        uses = any(use.id.startswith(prefix) for use in self.world.uses.all())
        return not uses and not JobPlaces(self.world.places, record.uid).spec.exists()

    async def _unmounted(self, record: JobRecord, nodes: Sequence[VirtualNode]) -> str:
        own = [node for node in nodes if node.name in record.nodes]
        return await self.data.unmounted(await self.data.volumes(record.spec), own)

    def _instances(self, record: JobRecord) -> Mapping[str, InstanceSight]:
        """Blocks for as long as reading a few files takes."""
        places = JobPlaces(self.world.places, record.uid)
        roles = {each.name: self.world.roles.get(role_id(record.uid, each.name)) for each in record.instances}
        left: set[str] = set()
        if any(role is not None and role.state == "ended" for role in roles.values()):
            left = {each.role for each in marked_processes(self.world.database.instance)}
        return {
            each.name: sight_of(
                record.run,
                roles[each.name],
                read_news(places.instance(each.name) / STATE_FILE),
                is_left=role_id(record.uid, each.name) in left,
            )
            for each in record.instances
        }


def sight_of(run: str, role: RoleRecord | None, news: InstanceNews | None, *, is_left: bool) -> InstanceSight:
    """How an instance stands in the attempt `run`, from its process and from what it said last. Pure."""
    said = news if news is not None and news.run == run else None
    if role is not None and role.order.version != run:
        # Of an attempt before: nothing begins until it is gone.
        return InstanceSight(Sight.ABSENT, has_leftovers=role.state != "ended" or is_left)
    if role is not None and role.state != "ended":
        return InstanceSight(Sight.UP if said is not None and said.state == "up" else Sight.STARTING)
    if said is None:
        return InstanceSight(Sight.ABSENT, has_leftovers=is_left)
    if said.state == "ended":
        return InstanceSight(
            Sight.ENDED,
            said.exit_code,
            said.message,
            has_leftovers=is_left,
            is_out_of_memory=said.is_out_of_memory,
        )
    return InstanceSight(Sight.LOST, has_leftovers=is_left)


def is_ready(node: VirtualNode) -> bool:
    """Whether programs can run on a node."""
    return node.is_made and (node.namespace is None or (_NAMESPACES / node.namespace).exists())


def ports_of(
    spec: JobSpec,
    posts: Sequence[Post],
    placed: Mapping[str, str],
    nodes: Mapping[str, VirtualNode],
    taken: set[tuple[str, int]],
) -> dict[str, int]:
    """A port for each process that others reach: as its role wishes, else one that is free. MPI finds its own."""
    if spec.kind is JobKind.MPI:
        return {}
    found: dict[str, int] = {}
    used = set(taken)
    for post in posts:
        node, role = nodes[placed[post.name]], spec.role(post.role)
        first = role.port if role is not None and role.port else MASTER_PORT
        port = next(
            each
            for each in range(first, max(_LAST_PORT, first + 1000))
            if (node.address, each) not in used and _is_free(node, each)
        )
        used.add((node.address, port))
        found[post.name] = port
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

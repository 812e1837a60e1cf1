"""How the data of a job stands: whether it is warm, whether nodes can read it, and how much of it each node has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.api.scheduling import Toleration
from headrace.jobs.spec import JobSpec
from headrace.jobs.warmth import cold_words, warmth_of
from headrace.local.context import BackendContext
from headrace.local.datasets.candidates import Candidates, NodeWish
from headrace.local.datasets.mount_probe import is_mounted
from headrace.local.jobs.job_volumes import Volume, datasets_of, volumes_of
from headrace.local.jobs.scheduler import CandidateNode
from headrace.local.nodes.node_capacity import is_ready, node_facts
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.store.object_store import Store
from headrace.local.store.records import Reference


@dataclass(frozen=True, slots=True)
class JobData:
    """The state of the data of jobs. Used from one event loop."""

    context: BackendContext
    candidates: Candidates

    async def volumes(self, spec: JobSpec) -> tuple[Volume, ...]:
        """The data that the job named, as it is now."""
        return await asyncio.to_thread(volumes_of, spec, self.context.store)

    async def leaving(self, spec: JobSpec) -> str:
        """The dataset of a job that is being deleted, in a sentence; empty: none is."""
        volumes = await self.volumes(spec)
        return next((each.problem for each in volumes if each.is_leaving), "")

    async def cold(self, spec: JobSpec) -> str:
        """The reason why the job may not begin yet, in a sentence; empty: none."""
        if spec.suspend:
            return f"it is suspended: `arena release {spec.name}` starts it"
        if not spec.wait_warm_percent:
            return ""
        volumes = await self.volumes(spec)
        return await asyncio.to_thread(_cold, self.context.store, volumes, spec.wait_warm_percent)

    async def sites(self, spec: JobSpec) -> list[CandidateNode]:
        """The nodes as the job sees them."""
        keys = datasets_of(await self.volumes(spec))
        anywhere = NodeWish(tolerations=(Toleration.model_validate({"operator": "Exists"}),))
        found = {each.name: each for each in await self.candidates.all(keys, anywhere)}
        nodes = self.context.nodes.all()
        ready = {node.name for node in nodes if is_ready(node)}
        users = [consumer.node for consumer in self.context.consumers.all()]
        return [
            CandidateNode(
                node=replace(fact, is_ready=fact.name in ready),
                may_mount=found[fact.name].is_allowed,
                cached_share=found[fact.name].cached_share,
                users=users.count(fact.name),
            )
            for fact in node_facts(nodes, {})
            if fact.name in found
        ]

    async def unmounted(self, volumes: Sequence[Volume], nodes: Sequence[VirtualNode]) -> str:
        """The reason why the data cannot be read on these nodes, in a sentence; empty: none."""
        for volume in volumes:
            if volume.dataset is None:
                if volume.problem:
                    return volume.problem
                continue
            for node in nodes:
                if not await is_mounted(self.context, volume.dataset, node):
                    title = "/".join(volume.dataset)
                    return volume.problem or f"dataset {title} is being mounted on {node.name}"
        return ""


def _cold(store: Store, volumes: tuple[Volume, ...], percent: int) -> str:
    found = ((key, store.get(Reference("Dataset", *key))) for key in datasets_of(volumes))
    return cold_words(
        percent, [warmth_of(key[1], record.status if record else None) for key, record in found]
    )

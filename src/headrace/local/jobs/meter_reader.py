"""Readings of the counters that a job's data cost follows from: of mounts on its nodes, and of datasets' workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.engine.registry import Registry
from headrace.errors import HeadraceError
from headrace.jobs.data_cost import Metering, Reading, worker_counters
from headrace.local.context import BackendContext
from headrace.local.datasets.dataset_layout import layout_of
from headrace.local.datasets.masters import Masters
from headrace.local.jobs.mount_counters import reading_of_mount
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.reconciler import Dataset as Key

_log = logging.getLogger("headrace.local")

_ANSWER_S = 3.0


@dataclass(frozen=True, slots=True)
class MeterReader:
    """Reads counters. Used from one event loop."""

    context: BackendContext
    masters: Masters

    async def read(
        self,
        metering: Metering,
        keys: Sequence[Key],
        nodes: Sequence[VirtualNode],
        since: datetime,
        own: Sequence[str],
    ) -> Metering:
        """After another reading; `own` are the ids of the job's uses. Processes that do not answer are left out."""
        found: list[Reading] = []
        for key in keys:
            found += _of_workers("/".join(key), await self._status(key), since)
            mounts = [await self._mount(key, node, since) for node in nodes]
            found += [each for each in mounts if each is not None]
        is_shared = any(consumer.id not in own for key in keys for consumer in self.context.consumers.of(key))
        return metering.read(found, is_shared=is_shared)

    async def _status(self, key: Key) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(_ANSWER_S), await self.masters.client("/".join(key)) as client:
                return await client.status()
        except (HeadraceError, TimeoutError, OSError):
            return {}

    async def _mount(self, key: Key, node: VirtualNode, since: datetime) -> Reading | None:
        mountpoint = str(layout_of(self.context.layout, "/".join(key)).mountpoint(node))
        registry = Registry(self.context.environment.runtime_directory)
        source = f"{'/'.join(key)}/mount/{node.name}"
        try:
            return await reading_of_mount(registry, mountpoint, source, since)
        except (HeadraceError, TimeoutError, OSError) as error:
            _log.debug("mount/%s: its counters cannot be read: %s", mountpoint, error)
            return None


def _of_workers(title: str, status: Mapping[str, Any], since: datetime) -> Iterator[Reading]:
    """The counters of a dataset's workers, as its master has them."""
    for row in status.get("workers", ()):
        started_at_s = float(row.get("started_at_s", 0.0))
        yield Reading(
            source=f"{title}/worker/{row['id']}",
            life=str(started_at_s),
            counters=worker_counters(row.get("origin_bytes", 0), row.get("loaded_bytes", 0)),
            began_before=started_at_s < since.timestamp(),
        )

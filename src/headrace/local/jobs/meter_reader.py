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
from headrace.local.context import BackendContext
from headrace.local.datasets.dataset_layout import layout_of
from headrace.local.datasets.masters import Masters
from headrace.local.jobs.cost_accounting import Counters, Meter, advanced
from headrace.local.jobs.mount_counters import counters_of_mount
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
        meter: Meter,
        keys: Sequence[Key],
        nodes: Sequence[VirtualNode],
        since: datetime,
        own: Sequence[str],
    ) -> Meter:
        """The meter after another reading; `own` are the ids of the job's uses. Who does not answer is left out."""
        found: dict[str, Counters] = {}
        is_estimated = False
        for key in keys:
            found |= _of_cluster("/".join(key), await self._status(key), since)
            for node in nodes:
                name = f"mount/{'/'.join(key)}/{node.name}"
                reading = await self._mount(key, node, since)
                if reading is not None:
                    counters, has_passed = reading
                    found[name] = counters
                    is_estimated = is_estimated or has_passed
        is_shared = any(consumer.id not in own for key in keys for consumer in self.context.consumers.of(key))
        return advanced(meter, found, is_shared=is_shared, is_estimated=is_estimated)

    async def _status(self, key: Key) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(_ANSWER_S), await self.masters.client("/".join(key)) as client:
                return await client.status()
        except (HeadraceError, TimeoutError, OSError):
            return {}

    async def _mount(self, key: Key, node: VirtualNode, since: datetime) -> tuple[Counters, bool] | None:
        mountpoint = str(layout_of(self.context.layout, "/".join(key)).mountpoint(node))
        registry = Registry(self.context.environment.runtime_directory)
        try:
            return await counters_of_mount(registry, mountpoint, since)
        except (HeadraceError, TimeoutError, OSError) as error:
            _log.debug("mount/%s: its counters cannot be read: %s", mountpoint, error)
            return None


def _of_cluster(title: str, status: Mapping[str, Any], since: datetime) -> dict[str, Counters]:
    """The counters of a dataset's workers and loads, as its master has them."""
    return {**dict(_of_workers(title, status, since)), **dict(_of_loads(title, status, since))}


def _of_workers(title: str, status: Mapping[str, Any], since: datetime) -> Iterator[tuple[str, Counters]]:
    for row in status.get("workers", ()):
        started_at_s = float(row.get("started_at_s", 0.0))
        yield (
            f"worker/{title}/{row['id']}",
            Counters(
                instance=str(started_at_s),
                is_new=started_at_s >= since.timestamp(),
                origin_bytes=int(row.get("origin_bytes", 0)),
            ),
        )


def _of_loads(title: str, status: Mapping[str, Any], since: datetime) -> Iterator[tuple[str, Counters]]:
    for row in status.get("loads", ()):
        yield (
            f"load/{title}/{row['id']}",
            Counters(
                instance="load",
                is_new=float(row.get("created_at_s", 0.0)) >= since.timestamp(),
                loaded_bytes=int(row.get("origin_bytes", 0)),
            ),
        )

"""Whether a dataset can be read on a node now."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.local.reconcile.places import places_of
from headrace.plan.roles import mount_id
from headrace.roles.detaching import device_at

if TYPE_CHECKING:
    from headrace.local.nodes import VirtualNode
    from headrace.local.reconciler import Dataset
    from headrace.local.world import World

_ANSWER_S = 3.0


async def is_mounted(world: World, key: Dataset, node: VirtualNode) -> bool:
    """True when its mount runs there and answers."""
    places = places_of(world.places, "/".join(key))
    record = world.roles.get(places.order_id(mount_id(node.name)))
    if record is None or record.state != "running":
        return False
    return await answers(str(places.mountpoint(node)))


async def answers(mountpoint: str) -> bool:
    """True when something is mounted there that answers."""
    if await asyncio.to_thread(device_at, mountpoint) is None:
        return False
    try:
        async with asyncio.timeout(_ANSWER_S):
            await asyncio.to_thread(os.stat, Path(mountpoint) / ".")
    except (OSError, TimeoutError):
        return False
    return True

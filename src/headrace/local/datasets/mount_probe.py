"""The check that a dataset can be read on a node now."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from headrace.local.datasets.dataset_layout import layout_of
from headrace.local.datasets.mount_questions import MountQuestions
from headrace.plan.roles import mount_id
from headrace.roles.mountpoint.detaching import device_at

if TYPE_CHECKING:
    from headrace.local.context import BackendContext
    from headrace.local.nodes.virtual_nodes import VirtualNode
    from headrace.local.reconciler import Dataset


async def is_mounted(context: BackendContext, key: Dataset, node: VirtualNode) -> bool:
    """True when its mount runs there and answers."""
    layout = layout_of(context.layout, "/".join(key))
    record = context.roles.get(layout.order_id(mount_id(node.name)))
    if record is None or record.state != "running":
        return False
    return await answers(str(layout.mountpoint(node)))


async def answers(mountpoint: str) -> bool:
    """True when something is mounted there whose process answers.

    Waits a few seconds for one that is silent, and not at all as long as it stays so.
    """
    device = await asyncio.to_thread(device_at, mountpoint)
    if device is None:
        return False
    try:
        # Another device is another mount: it is not silent because the one before was.
        return await _questions.ask((mountpoint, device), lambda: _is_served(mountpoint))
    except TimeoutError:
        return False


_questions = MountQuestions[bool]()


def _is_served(mountpoint: str) -> bool:
    try:
        # Of all that could be asked, the kernel never answers this one from memory.
        os.statvfs(mountpoint)
    except OSError:
        return False
    return True

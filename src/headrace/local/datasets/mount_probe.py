"""Whether a dataset can be read on a node now."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.local.datasets.dataset_layout import layout_of
from headrace.plan.roles import mount_id
from headrace.roles.detaching import device_at

if TYPE_CHECKING:
    from headrace.local.context import BackendContext
    from headrace.local.nodes.virtual_nodes import VirtualNode
    from headrace.local.reconciler import Dataset

_ANSWER_S = 3.0


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
    question = _ask(mountpoint, device)
    if question.is_overdue and not question.answer.done():
        return False
    done, _ = await asyncio.wait([asyncio.wrap_future(question.answer)], timeout=question.left_s)
    return any(answer.result() for answer in done)


@dataclass(frozen=True)
class _Question:
    """One that a mount was asked; whoever wants to know the same meanwhile waits for the same answer."""

    answer: Future[bool] = field(default_factory=Future)
    begun_s: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        return max(0.0, self.begun_s + _ANSWER_S - time.monotonic())

    @property
    def is_overdue(self) -> bool:
        return self.left_s == 0.0


_open: dict[tuple[str, str], _Question] = {}
"""By mountpoint and device: a mount that is silent keeps one thread, whoever asks and however often."""
_lock = threading.Lock()


def _ask(mountpoint: str, device: str) -> _Question:
    """The question that this mount is being asked; a new one on a thread of its own when there is none.

    No pool: a silent mount keeps its thread until it answers or ends, and threads of a pool are missed by all others.
    """
    key = (mountpoint, device)
    with _lock:
        question = _open.get(key)
        if question is None:
            question = _open[key] = _Question()
            name = f"asks {mountpoint}"
            threading.Thread(target=_wait_for_answer, args=(key, question), name=name, daemon=True).start()
    return question


def _wait_for_answer(key: tuple[str, str], question: _Question) -> None:
    try:
        # Of all that could be asked, the kernel never answers this one from memory.
        os.statvfs(key[0])
        answered = True
    except OSError:
        answered = False
    with _lock:
        del _open[key]
    question.answer.set_result(answered)

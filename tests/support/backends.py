"""A local backend of a test: the real supervisor, in a state folder of its own, taken down however the test ends.

It keeps what is declared and runs nothing for it.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.local.layout import BackendLayout
from headrace.local.lifecycle import launch
from headrace.local.lifecycle.backend_lock import is_owned
from headrace.local.lifecycle.teardown import tear_down
from headrace.local.protocol.client import LocalClient
from headrace.local.protocol.messages import NodesWish
from headrace.settings.environment import Environment

DEADLINE_S = 60.0


@contextmanager
def backend(folder: Path, nodes: int = 1) -> Iterator[LocalClient]:
    """One that is up."""
    places = BackendLayout(folder / "local")
    try:
        bring_up(places, nodes)
        yield LocalClient(places)
    finally:
        take_down(places)


def bring_up(places: BackendLayout, nodes: int = 1) -> None:
    launch.bring_up(places, NodesWish(count=nodes), Environment.current(), release="test", idle=True)


def take_down(places: BackendLayout) -> None:
    if is_owned(places):
        launch.stop(places)
    tear_down(places, keep_caches=False, wait_s=DEADLINE_S)


def kill(client: LocalClient) -> None:
    """As `kill -9` does it; returns when the process is gone, with its socket and its lock."""
    descriptor = os.pidfd_open(client.hello().pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], DEADLINE_S)
    finally:
        os.close(descriptor)

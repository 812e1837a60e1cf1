"""One change at a time to what all backends of a machine share: which subnets are taken, and whether it forwards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.netns.commands import CommandError
from headrace.netns.namespaces import can_make_namespaces

# Only root writes there: nobody else can hold the lock, or put something else in its place.
_LOCK = Path("/run/headrace-network.lock")
# A change takes a fraction of a second; who holds the lock for longer is stopped, or hangs.
_PATIENCE_S = 60.0
_POLL_S = 0.02


@contextlib.contextmanager
def network_lock(path: Path = _LOCK, patience_s: float = _PATIENCE_S) -> Iterator[None]:
    """Held from the look at the machine's network to the change that follows from it; it ends with its process.

    Without the right to change anything there is nothing to lock. Raises `CommandError` when another process does not
    give it back in time.
    """
    if not can_make_namespaces():
        yield
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, path, patience_s)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() >= deadline:
            raise CommandError(
                f"another process changes this machine's network for too long; it holds {path}"
            )
        time.sleep(_POLL_S)

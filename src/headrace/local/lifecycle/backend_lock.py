"""The lock on the world of a local backend: only the process that holds it may change anything."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import BusyError
from headrace.local.layout import BackendLayout
from headrace.trusted_folders import open_file

_POLL_S = 0.05


@contextmanager
def owning(layout: BackendLayout, *, wait_s: float = 0.0) -> Iterator[None]:
    """Holds the lock, which the kernel gives back when the process ends. Raises `BusyError` when another has it."""
    layout.make()
    deadline = time.monotonic() + wait_s
    descriptor = open_file(layout.lock, os.O_RDWR | os.O_CREAT)
    try:
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise BusyError.of(
                    f"another process looks after {layout.folder}",
                    hint="see `headrace status`; or wait for its end",
                )
            time.sleep(_POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def restarting(layout: BackendLayout) -> Iterator[None]:
    """Held by a guard that starts a supervisor anew, and by whoever ends it: each waits for the other."""
    descriptor = open_file(layout.guard_lock, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_owned(layout: BackendLayout) -> bool:
    """True while some process holds the lock."""
    try:
        descriptor = open_file(layout.lock, os.O_RDWR)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def owner(layout: BackendLayout) -> int | None:
    """The process that holds the lock."""
    if not is_owned(layout):
        return None
    text = layout.lock.read_text(encoding="ascii").strip()
    return int(text) if text.isdigit() else None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

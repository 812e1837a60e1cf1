"""The end of a process whose mount was taken off: usually at once, unless something holds it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from headrace.errors import DeadlineError
from headrace.process.stat import started_ticks
from headrace.roles.mountpoint.detaching import abort, abort_command
from headrace.roles.mountpoint.mount_table import MountEntry
from headrace.roles.mountpoint.other_namespaces import holders_of, sees_all_processes, users_of_the_detached
from headrace.roles.mountpoint.standstill import Standstill

MOST_USERS = 3
"""How many programs that use a mount are named."""

_END_S = 60.0
# Then it is worth looking who holds it: usually a process ends at once.
_COPIES_AFTER_S = 1.0
_POLL_S = 0.02


def wait_for_end(
    pid: int,
    ticks: int,
    mountpoint: Path,
    copies: frozenset[MountEntry],
    *,
    force: bool,
    connection: str | None = None,
) -> None:
    """Returns once the process has ended; `force` kills one that was stopped. Raises `DeadlineError`: who holds it.

    `connection`: its device, where the mount itself has another.
    """
    begin = time.monotonic()
    standstill = Standstill(pid)
    look = begin + _COPIES_AFTER_S
    while started_ticks(pid) == ticks:
        now = time.monotonic()
        if force and standstill.is_now:
            _kill(pid)
        if standstill.lasts:
            raise _stands_still(pid, mountpoint)
        if now > begin + _END_S:
            raise not_ended(pid, mountpoint, copies, connection)
        if copies and now > look:
            end_unused_copies(copies, connection)
            look = now + _COPIES_AFTER_S
        time.sleep(_POLL_S)


def end_unused_copies(copies: frozenset[MountEntry], connection: str | None = None) -> None:
    """Ends a mount that was taken off here, unless a program in another mount namespace uses a copy of it.

    Only while there is a copy: without one it has ended, and its number may be another mount's.
    """
    holders = holders_of(copies)
    if not holders or not sees_all_processes() or any(holder.is_user for holder in holders):
        return
    # Of a view programs may have files of an earlier list open, which is on no folder here.
    if connection is None or not any(users_of_the_detached()):
        abort(connection or next(iter(copies)).device)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _stands_still(pid: int, mountpoint: Path) -> DeadlineError:
    return DeadlineError.of(
        f"{mountpoint} is unmounted, but its process {pid} stands still: it was stopped",
        hint=f"`kill -CONT {pid}` lets it end in order, `kill -KILL {pid}` ends it; the cache is kept either way",
    )


def not_ended(
    pid: int, mountpoint: Path, copies: frozenset[MountEntry], connection: str | None
) -> DeadlineError:
    """That the process has not, who keeps it from that, and what ends it all the same."""
    users = [str(holder) for holder in holders_of(copies) if holder.is_user]
    if users:
        device = connection or next(iter(copies)).device
        by = ", ".join(users[:MOST_USERS])
        return DeadlineError.of(
            f"{mountpoint} is unmounted here, but in another mount namespace it is in use by {by}",
            hint=f"end them; to end the mount for them, too: {abort_command(device)}",
        )
    if connection is not None and (inside := list(users_of_the_detached())):
        by = ", ".join(map(str, inside[:MOST_USERS]))
        return DeadlineError.of(
            f"{mountpoint} is unmounted, but processes may have files open of a list from before a refresh: {by}",
            hint=f"end them, and the mount ends; to end it at once: {abort_command(connection)}",
        )
    return DeadlineError.of(
        f"{mountpoint} is unmounted, but its process {pid} has not ended yet",
        hint=f"see its log, or: kill {pid}",
    )

"""Takes away everything that a local backend made, from what it wrote down, whoever died before.

The order matters: programs with their control groups, mounts, workers, masters, networks, folders, and what is written
down last, so that a teardown that is killed can be done again.
"""

from __future__ import annotations

import signal
from collections.abc import Collection
from pathlib import Path

from headrace.errors import BusyError
from headrace.local.jobs.resource_limits import remove_groups_of_job
from headrace.local.layout import BackendLayout
from headrace.local.lifecycle.backend_lock import owning
from headrace.local.nodes.managed_folders import ManagedFolders, remove_tree
from headrace.local.nodes.virtual_nodes import VirtualNodes
from headrace.local.processes.consumers import read_consumers
from headrace.local.processes.process_tags import end, end_all, family
from headrace.local.processes.role_processes import ORDER_OF_ENDS, read_roles
from headrace.local.store.database import Database, is_there
from headrace.roles.mountpoint.detaching import detach, device_at, mountpoints_below

_GRACE_S = 10.0


def tear_down(layout: BackendLayout, *, keep_caches: bool, wait_s: float) -> list[Path]:
    """Leaves nothing behind but caches that are kept, and returns those.

    Raises `BusyError` when another process looks after the backend still, or a mount cannot be taken off.
    """
    if not layout.folder.exists():
        return []
    with owning(layout, wait_s=wait_s):
        kept = _undo(layout, keep_caches=keep_caches) if is_there(layout.database) else []
        for path in _last_things_last(layout):
            remove_tree(path, keep=kept)
        _remove_if_empty(layout.folder)
    return [path for path in kept if path.exists()]


def _undo(layout: BackendLayout, *, keep_caches: bool) -> list[Path]:
    database = Database(layout.database)
    try:
        end_roles(database)
        for job in layout.training.glob("*"):
            remove_groups_of_job(job)
        folders = ManagedFolders(database)
        take_off_mounts([layout.nodes])
        VirtualNodes(database, layout.nodes).remove()
        kept = folders.caches() if keep_caches else []
        folders.remove(keep=keep_caches)
        return kept
    finally:
        database.close()


def end_roles(database: Database) -> None:
    """Ends all processes of a backend: programs that use datasets, roles of each kind together in their order,
    and then whatever is left.
    """
    consumers = read_consumers(database)
    # A program that has cleared its environment has no tag any more.
    unmarked = [
        each
        for consumer in consumers
        if consumer.pid
        for each in family(consumer.pid, consumer.started_ticks, consumer.id)
    ]
    end_all(database.instance, [consumer.id for consumer in consumers], grace_s=_GRACE_S)
    end(unmarked, signal.SIGKILL)
    records = read_roles(database)
    for kind in ORDER_OF_ENDS:
        ids = [record.order.id for record in records if record.order.kind == kind]
        if ids:
            end_all(database.instance, ids, grace_s=_GRACE_S)
    end_all(database.instance, grace_s=0.0)
    with database.transaction() as connection:
        connection.execute("DELETE FROM roles")


def take_off_mounts(folders: Collection[Path]) -> None:
    """Takes off what is mounted below the folders, deepest first. Raises `BusyError` for what stays."""
    for folder in folders:
        for mountpoint in sorted(mountpoints_below(str(folder)), key=len, reverse=True):
            device = device_at(mountpoint)
            if device is not None and not detach(mountpoint, device):
                raise BusyError.of(
                    f"the mount at {mountpoint} cannot be taken off",
                    hint=f"umount -l {mountpoint}, and down again",
                )


def _last_things_last(layout: BackendLayout) -> list[Path]:
    """All that is in the folder. A database without the log beside it is whole, since it was closed; a log without its
    database would be taken for the next one's. Who waits for the lock finds that there is nothing left.
    """
    last = [layout.database, layout.lock]
    return [*(path for path in sorted(layout.folder.iterdir()) if path not in last), *last]


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return

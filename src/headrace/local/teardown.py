"""Takes away everything that a local backend made, from what it wrote down, whoever died before.

The order matters: programs with their control groups, mounts, workers, masters, networks, folders, and what is written
down last, so that a teardown that is killed can be done again.
"""

from __future__ import annotations

import signal
from collections.abc import Collection
from pathlib import Path

from headrace.errors import BusyError
from headrace.local.database import Database, is_there
from headrace.local.folders import Folders, remove_tree
from headrace.local.marks import end, end_all, family
from headrace.local.nodes import Nodes
from headrace.local.ownership import owning
from headrace.local.places import Places
from headrace.local.roles import ORDER_OF_ENDS, read_roles
from headrace.local.training.limits import remove_groups_of_job
from headrace.local.uses import read_uses
from headrace.roles.detaching import detach, device_at, mountpoints_below

_GRACE_S = 10.0


def tear_down(places: Places, *, keep_caches: bool, wait_s: float) -> list[Path]:
    """Leaves nothing behind but caches that are kept, and returns those.

    Raises `BusyError` when another process looks after the backend still, or a mount cannot be taken off.
    """
    if not places.folder.exists():
        return []
    with owning(places, wait_s=wait_s):
        kept = _undo(places, keep_caches=keep_caches) if is_there(places.database) else []
        for path in _last_things_last(places):
            remove_tree(path, keep=kept)
        _remove_if_empty(places.folder)
    return [path for path in kept if path.exists()]


def _undo(places: Places, *, keep_caches: bool) -> list[Path]:
    database = Database(places.database)
    try:
        end_roles(database)
        for job in places.training.glob("*"):
            remove_groups_of_job(job)
        folders = Folders(database)
        take_off_mounts([places.nodes])
        Nodes(database, places.nodes).remove()
        kept = folders.caches() if keep_caches else []
        folders.remove(keep=keep_caches)
        return kept
    finally:
        database.close()


def end_roles(database: Database) -> None:
    """Ends all processes of a backend: programs that use datasets, roles of each kind together in their order,
    and then whatever is left.
    """
    uses = read_uses(database)
    # A program that has cleared its environment has no mark any more.
    unmarked = [each for use in uses if use.pid for each in family(use.pid, use.started_ticks, use.id)]
    end_all(database.instance, [use.id for use in uses], grace_s=_GRACE_S)
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


def _last_things_last(places: Places) -> list[Path]:
    """All that is in the folder. A database without the log beside it is whole, since it was closed; a log without its
    database would be taken for the next one's. Who waits for the lock finds that there is nothing left.
    """
    last = [places.database, places.lock]
    return [*(path for path in sorted(places.folder.iterdir()) if path not in last), *last]


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return

"""Taking away what a dataset's roles left on a node: its mount, its states, its caches. Nothing else."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import BusyError, RefusedError
from headrace.roles.mountpoint.detaching import detach, device_at

_log = logging.getLogger("headrace.sweep")

OF_A_CACHE = frozenset({"lock", "index.log", "index.log.new", "data"})
"""What may lie in a cache folder."""
MARKS = frozenset({"lock", "index.log"})
"""What lies in every cache folder from its beginning, and tells that it is one."""


def sweep(dataset: str, node_folder: Path, caches: Iterable[Path]) -> None:
    """Removes what lies below the node's folder and below cache folders for `namespace/name`.

    Raises `BusyError` for a mount that does not go, `RefusedError` for a cache folder that holds what no cache does,
    and for a link in the place of a folder: what it leads to is somebody else's.
    """
    _take_off(node_folder / "mounts", dataset)
    for root in (node_folder / "mounts", node_folder / "state"):
        _remove(root, dataset)
    for root in caches:
        _remove(root, dataset, _check)


def _take_off(root: Path, dataset: str) -> None:
    with _namespace(root, dataset) as namespace:
        if namespace is None:
            return
    mountpoint = str(root / dataset)
    device = device_at(mountpoint)
    if device is not None and not detach(mountpoint, device, force=True):
        raise BusyError.of(f"the mount at {mountpoint} does not go", hint="end the programs that use it")


def _check(folder: Path, descriptor: int) -> None:
    """Refuses a folder with strangers' files in it, before anything of it is removed."""
    there = set(os.listdir(descriptor))
    foreign = sorted(there - OF_A_CACHE)
    if foreign:
        raise RefusedError.of(
            f"cache folder {folder} holds {foreign[0]}, which is not Headrace's", hint="remove it by hand"
        )
    if there and not there & MARKS:
        raise RefusedError.of(
            f"{folder} bears no mark of a cache: neither {' nor '.join(sorted(MARKS))}",
            hint="remove it by hand",
        )


def _remove(root: Path, dataset: str, check: Callable[[Path, int], None] | None = None) -> None:
    """Removes `root/namespace/name`, and the namespace's folder if nothing else is in it."""
    folder = root / dataset
    with _namespace(root, dataset) as namespace:
        if namespace is None:
            return
        with _opened(folder, namespace) as descriptor:
            if descriptor is not None and check is not None:
                check(folder, descriptor)
        if descriptor is not None:
            shutil.rmtree(folder.name, dir_fd=namespace)
            _log.info("removed %s", folder)
        is_empty = not os.listdir(namespace)  # noqa: PTH208 - a descriptor is no path
    if is_empty:
        folder.parent.rmdir()


@contextmanager
def _namespace(root: Path, dataset: str) -> Iterator[int | None]:
    """The namespace's folder. The root may be a link that an administrator made; what is below it was made by roles."""
    with _opened(root, None, os.O_DIRECTORY) as top:
        if top is None:
            yield None
            return
        with _opened((root / dataset).parent, top) as descriptor:
            yield descriptor


@contextmanager
def _opened(
    folder: Path, parent: int | None, flags: int = os.O_DIRECTORY | os.O_NOFOLLOW
) -> Iterator[int | None]:
    """A folder, `None` where there is none. By descriptors, so that nobody puts a link in between."""
    try:
        name = folder if parent is None else folder.name
        descriptor = os.open(name, os.O_RDONLY | flags, dir_fd=parent)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise RefusedError.of(f"{folder} is a link, or no folder", hint="remove it by hand") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)

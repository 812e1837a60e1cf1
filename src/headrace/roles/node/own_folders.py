"""Folders of a node that are given to the user whom a role runs as. Called as root, before that role.

The places come from what people declare, on a node that other people use. So only folders are given away that were made
here: below the place each name is opened by its parent's descriptor, never through a link. A folder that is there
already must be that user's, or it is removed and made anew, provided that it holds nothing but what Headrace keeps
there.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import ConfigError, RefusedError
from headrace.roles.node.sweeping import OF_A_CACHE
from headrace.trusted_folders import opened_place

_log = logging.getLogger("headrace.prepare")


@dataclass(frozen=True, slots=True)
class Owner:
    """User and group, by number."""

    uid: int
    gid: int


def give_state(place: Path, name: str, owner: Owner) -> None:
    """Gives the folder `name` of a place that is root's own to `owner`."""
    with _place(place) as parent:
        _give(parent, place / name, owner, is_cache=False)


def give_cache(place: Path, dataset: str, owner: Owner) -> None:
    """Gives the cache folder of `namespace/name` in a place that somebody named to `owner`."""
    namespace, _, name = dataset.partition("/")
    with _place(place) as top:
        _make(top, namespace, 0o755)
        with _opened(top, place / namespace) as parent:
            _check_ours(os.fstat(parent), place / namespace)
            _give(parent, place / namespace / name, owner, is_cache=True)


def _check_ours(facts: os.stat_result, folder: Path) -> None:
    """Refuses a folder whose owner, or any user, could put something else in the place of what is made in it."""
    hint = "remove it, or name another path in the runtime's tieredstore"
    if facts.st_uid != os.geteuid():
        raise RefusedError.of(f"{folder} is somebody else's: user {facts.st_uid} owns it", hint=hint)
    if facts.st_mode & 0o022:
        raise RefusedError.of(f"{folder} may be written to by other users", hint=hint)


def _give(parent: int, folder: Path, owner: Owner, *, is_cache: bool) -> None:
    if not _make(parent, folder.name, 0o700):
        with _opened(parent, folder) as there:
            facts = os.fstat(there)
            if (facts.st_uid, facts.st_gid) == (owner.uid, owner.gid):
                # Of kubelet's making; what the user itself opened to others is its own business.
                with suppress(PermissionError):
                    os.fchmod(there, 0o700)
                return
            if is_cache:
                _refuse_strangers(there, folder)
        _log.info("%s was user %d's: it is made anew", folder, facts.st_uid)
        shutil.rmtree(folder.name, dir_fd=parent)
        _make(parent, folder.name, 0o700)
    with _opened(parent, folder) as made:
        os.fchown(made, owner.uid, owner.gid)


def _refuse_strangers(folder: int, path: Path) -> None:
    foreign = sorted(name for name in os.listdir(folder) if name not in OF_A_CACHE)
    if foreign:
        raise RefusedError.of(
            f"cache folder {path} holds {foreign[0]}, which is not Headrace's",
            hint="remove it by hand, or name another path in the runtime's tieredstore",
        )


def _make(parent: int, name: str, mode: int) -> bool:
    """Makes a folder; false when something has its name."""
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        return False
    return True


@contextmanager
def _place(place: Path) -> Iterator[int]:
    """Where folders are made. It is a volume of this very pod: what is above it on the node is not to be seen."""
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(opened_place(place))
        except RefusedError:
            raise
        except OSError as error:
            raise ConfigError.of(f"{place}: {error.strerror}", hint="name a folder of the node") from None
        yield descriptor


@contextmanager
def _opened(parent: int, folder: Path) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        descriptor = os.open(folder.name, flags, dir_fd=parent)
    except OSError as error:
        what = "a link" if _is_link(parent, folder.name) else "no folder"
        raise RefusedError.of(f"{folder} is {what}", hint="remove it by hand") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_link(parent: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False

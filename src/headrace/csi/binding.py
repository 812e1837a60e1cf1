"""Puts a dataset's mount at target paths and takes it off again, without ever touching the mount from this process."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from headrace.csi import bind_program
from headrace.csi.volume_requests import Publication
from headrace.errors import (
    BusyError,
    ConfigError,
    DeadlineError,
    EngineError,
    HeadraceError,
    MissingFileError,
    RefusedError,
    UnsupportedError,
)
from headrace.roles.mountpoint.apart import run_apart
from headrace.roles.mountpoint.mount_table import mount_at, place_of

_DEADLINE_S = 10.0
_POLITE_S = 2.0
"""For unmounting in the plain way: umount(8) asks the mount first, which may be silent."""
_MOST_LAYERS = 64
_PROGRAM = (sys.executable, "-I", "-S", str(Path(bind_program.__file__)))


def is_there(target: str) -> bool:
    """True when the name exists, whatever it is; for a path at which nothing is mounted."""
    return os.path.lexists(target)


def prepare(target: str) -> None:
    """Makes the folder of a target path. Raises `ConfigError` when it cannot be one."""
    try:
        Path(target).mkdir(mode=0o750)
    except FileExistsError:
        # What is mounted here is not touched: only whether the name is a folder's matters.
        if mount_at(place_of(target)) is None and (Path(target).is_symlink() or not Path(target).is_dir()):
            raise ConfigError.of(f"the target path {target} is not a folder") from None
    except OSError as error:
        raise UnsupportedError.of(f"cannot make the target path {target}: {error.strerror}") from None


def bind(publication: Publication, mountpoint: str) -> None:
    """Binds what is published to its target path, over what is there. Raises a `HeadraceError`; blocks, bounded."""
    noexec = ["noexec"] if "noexec" in publication.flags else []
    words = [*_PROGRAM, mountpoint, publication.sub_path, publication.target, *noexec]
    outcome = run_apart(words, timeout_s=_DEADLINE_S)
    if outcome is None:
        raise DeadlineError.of(f"the mount of {publication.dataset} does not answer")
    if outcome.code != 0:
        raise _explain(outcome.code, publication)


def unbind(target: str) -> None:
    """Takes everything of ours off a target path, and removes its folder. Blocks, bounded.

    Raises `BusyError` when something remains there.
    """
    place = place_of(target)
    for _ in range(_MOST_LAYERS):
        there = mount_at(place)
        if there is None:
            break
        if not there.is_ours:
            raise BusyError.of(f"something else is mounted at {target}")
        _unmount(place)
    _remove_folder(target)


def _unmount(place: str) -> None:
    before = mount_at(place)
    # Lazily when somebody still stands in it, or when it is silent: it is a view of the mount, not the mount.
    for command, deadline_s in ((["umount", place], _POLITE_S), (["umount", "-l", place], _DEADLINE_S)):
        run_apart(command, timeout_s=deadline_s)
        if mount_at(place) != before:
            return
    raise BusyError.of(f"cannot unmount {place}")


def _remove_folder(target: str) -> None:
    try:
        os.rmdir(target)  # noqa: PTH106 - never more than an empty folder
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise ConfigError.of(f"the target path {target} is not a folder") from None
    except OSError as error:
        raise BusyError.of(f"cannot remove the target path {target}: {error.strerror}") from None


def _explain(number: int, publication: Publication) -> HeadraceError:
    what = f"`{publication.sub_path}` of {publication.dataset}"
    if number in (errno.ENOENT, errno.ENOTDIR):
        return MissingFileError.of(f"{what} is not there, or is no folder")
    if number in (errno.EXDEV, errno.ELOOP):
        return ConfigError.of(f"{what} leads out of the dataset")
    if number in (errno.ENOTCONN, errno.ECONNABORTED):
        return DeadlineError.of(f"the mount of {publication.dataset} has just gone")
    if number == errno.ENOSYS:
        return UnsupportedError.of(
            "this kernel cannot bind mounts safely", hint="Linux 5.12 or newer is needed"
        )
    if number in (errno.EPERM, errno.EACCES):
        return RefusedError.of("the driver may not mount", hint="its container must be privileged")
    return EngineError.of(f"cannot bind {what} to {publication.target}: {os.strerror(number)}")

"""The check that a folder can be mounted on, and the ways to end a mount from outside its process."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry
from headrace.errors import (
    BusyError,
    ConfigError,
    HeadraceError,
    MissingFileError,
    RefusedError,
    UnsupportedError,
)
from headrace.roles.mountpoint.detaching import abort, detach_commands, device_at
from headrace.roles.mountpoint.mount_table import MountEntry, mount_at, place_of
from headrace.roles.mountpoint.other_namespaces import copies_of
from headrace.roles.mountpoint.unmounted_process import MOST_USERS, wait_for_end

if TYPE_CHECKING:
    from headrace.settings.engine import EngineConfig


def check_free(mountpoint: Path, registry: Registry, *, is_kept: bool, nonempty: bool) -> None:
    """Raises what would keep `mountpoint` from being mounted on, by a mount that a keeper holds or by another.

    Does not touch a mount of ours that is there already: it may be silent.
    """
    if is_kept:
        check_kept_mountpoint(mountpoint, registry, nonempty=nonempty)
    elif _is_mounted(mountpoint) and _server_of(place_of(mountpoint), registry) is not None:
        raise _is_taken(mountpoint)
    else:
        check_mountpoint(mountpoint, nonempty=nonempty)


def check_mountpoint(mountpoint: Path, *, nonempty: bool) -> None:
    """Raises what would keep `mountpoint` from being mounted on, in words, before a process is started for it."""
    _check_fuse()
    try:
        names = os.scandir(mountpoint)
    except OSError as error:
        raise _unusable(mountpoint, error) from None
    with names:
        empty = next(names, None) is None
    if _is_mounted(mountpoint):
        raise _is_taken(mountpoint)
    if not empty and not nonempty:
        raise ConfigError.of(
            f"the mountpoint {mountpoint} is not empty",
            hint="choose an empty folder, or add --nonempty to hide what is in it while mounted",
        )


def check_kept_mountpoint(mountpoint: Path, registry: Registry, *, nonempty: bool) -> None:
    """The same for a mount with a keeper: one of ours may be there already, to go on with or to clear away.

    Does not touch that one, which may be silent. Makes a folder that is not there, since a node begins without any.
    """
    place = place_of(mountpoint)
    there = mount_at(place)
    if there is None:
        mountpoint.mkdir(parents=True, exist_ok=True)
    if there is None or not there.is_ours:
        check_mountpoint(mountpoint, nonempty=nonempty)
        return
    if (entry := _server_of(place, registry)) is not None:
        raise BusyError.of(
            f"process {entry.pid} serves the mount at {mountpoint}", hint=f"headrace unmount {mountpoint}"
        )


def check_places(mountpoint: Path, config: EngineConfig) -> None:
    """Raises when the mount, its cache and a local origin would lie in each other: the mount would read itself."""
    # Here, since who unmounts has no need of it.
    from headrace.settings.origins import LocalOrigin  # noqa: PLC0415

    own = [folder.path for level in config.cache for folder in level.folders] + [config.state_directory]
    for folder in own:
        if folder.is_relative_to(mountpoint):
            raise ConfigError.of(f"{folder} lies below the mountpoint {mountpoint}", hint="move one of them")
    for mount in config.origins:
        if not isinstance(mount.origin, LocalOrigin):
            continue
        origin = Path(mount.origin.directory)
        for folder in [*own, mountpoint]:
            if folder.is_relative_to(origin):
                raise ConfigError.of(
                    f"{folder} lies below the origin {origin}", hint="move it out of the data"
                )
        if origin.is_relative_to(mountpoint):
            raise ConfigError.of(
                f"the origin {origin} lies below the mountpoint {mountpoint}", hint="move one of them"
            )


def unmount(mountpoint: Path, registry: Registry, *, force: bool, lazy: bool) -> str | None:
    """Ends a mount and waits until its processes have ended, too; what those could not do at their end, if anything."""
    entry = _server_of(str(mountpoint), registry)
    there = mount_at(str(mountpoint))
    copies = copies_of(there) if there is not None else frozenset()
    if there is None:
        if entry is None:
            raise MissingFileError.of(
                f"nothing is mounted at {mountpoint}", hint="see `headrace status` for what is"
            )
    else:
        if force and there.is_ours and entry is not None and entry.connection is not None and entry.is_alive:
            # `umount` does it for a mount that has no other. Before: afterwards the number may be another one's.
            abort(entry.connection)
        _detach(mountpoint, there, force=force, lazy=lazy)
    if entry is not None and not lazy:
        for pid, ticks in entry.processes:
            wait_for_end(pid, ticks, mountpoint, copies, force=force, connection=entry.connection)
        return registry.take_word(entry)
    return None


def _detach(mountpoint: Path, there: MountEntry, *, force: bool, lazy: bool) -> None:
    for command in detach_commands(str(mountpoint), lazy=lazy, force=force):
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except FileNotFoundError:
            raise UnsupportedError.of(
                f"the program {command[0]} is not there", hint="install fuse3"
            ) from None
        # Its own processes take it off, too, when the connection has been ended.
        if done.returncode == 0 or mount_at(str(mountpoint)) != there:
            return
    raise _explain(mountpoint, done.stderr)


def _explain(mountpoint: Path, message: str) -> HeadraceError:
    lowered = message.lower()
    if "busy" in lowered:
        users = users_of(mountpoint)
        by = f" by {', '.join(users)}" if users else ""
        hint = "end them, or add --lazy (detach now, end when they are done) or --force"
        return BusyError.of(f"{mountpoint} is in use{by}", hint=hint)
    if "permitted" in lowered or "denied" in lowered or "must be superuser" in lowered:
        return RefusedError.of(
            f"{mountpoint} is another user's mount", hint="unmount it as that user or as root"
        )
    return ConfigError.of(f"cannot unmount {mountpoint}: {message.strip() or 'no reason given'}")


def users_of(mountpoint: Path) -> list[str]:
    """A few of the processes that have a file or their working folder below `mountpoint`: `bash (123)`."""
    found: list[str] = []
    for process in Path("/proc").iterdir():
        if (
            process.name in ("self", str(os.getpid()))
            or not process.name.isdigit()
            or not _uses(process, mountpoint)
        ):
            continue
        try:
            found.append(f"{(process / 'comm').read_text().strip()} ({process.name})")
        except OSError:
            continue
        if len(found) == MOST_USERS:
            break
    return found


def _uses(process: Path, mountpoint: Path) -> bool:
    try:
        links = [process / "cwd", process / "root", *(process / "fd").iterdir()]
    except OSError:
        return False
    for link in links:
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target == str(mountpoint) or target.startswith(f"{mountpoint}/"):
            return True
    return False


def _check_fuse() -> None:
    if not os.access("/dev/fuse", os.F_OK):
        raise UnsupportedError.of(
            "this machine has no /dev/fuse",
            hint="modprobe fuse; in a container, start it with --device /dev/fuse",
        )
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        raise UnsupportedError.of(
            "mounting as an ordinary user needs fusermount3", hint="install the package fuse3"
        )


def _is_mounted(path: Path) -> bool:
    """True for the root of a mount; also for one whose process has died, which `stat` cannot enter."""
    return device_at(str(path)) is not None


def _server_of(place: str, registry: Registry) -> Entry | None:
    """What runs for the mount at `place`, if it is one of ours."""
    return next((entry for entry in registry.entries() if entry.mountpoint == place), None)


def _is_taken(mountpoint: Path) -> BusyError:
    return BusyError.of(
        f"something is mounted at {mountpoint} already",
        hint=f"headrace unmount {mountpoint}, or choose another",
    )


def _unusable(mountpoint: Path, error: OSError) -> HeadraceError:
    if error.errno == errno.ENOENT:
        return MissingFileError.of(f"the mountpoint {mountpoint} is not there", hint=f"mkdir -p {mountpoint}")
    if error.errno == errno.ENOTDIR:
        return ConfigError.of(f"the mountpoint {mountpoint} is not a folder", hint="name an empty folder")
    if error.errno == errno.ENOTCONN:
        return BusyError.of(
            f"a mount whose process has died is still at {mountpoint}",
            hint=f"headrace unmount --lazy {mountpoint}",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return RefusedError.of(
            f"no right to enter the mountpoint {mountpoint}", hint="name a folder of yours"
        )
    return ConfigError.of(f"cannot use the mountpoint {mountpoint}: {error.strerror}")

"""Puts the calling process onto a virtual node: into the node's network, and mounts of its own, in which files of
datasets appear at any path. Nobody else sees those mounts, and they go with the last process that has them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, EngineError, HeadraceError, MissingFileError, RefusedError

_CLONE_NEWNS = 0x0002_0000
_CLONE_NEWUTS = 0x0400_0000
_CLONE_NEWNET = 0x4000_0000
_MS_RDONLY = 0x1
_MS_NOSUID = 0x2
_MS_NODEV = 0x4
_MS_REMOUNT = 0x20
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_SLAVE = 0x8_0000
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Bind:
    """A bind mount: `part` of the folder or file `source` at `target`, which must be there already."""

    source: str
    target: str
    part: str = ""
    read_only: bool = False

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Bind:
        """The same from JSON."""
        return cls(**content)


def enter(network: str | None, binds: Iterable[Bind]) -> None:
    """Goes there for good. Raises `HeadraceError` that says what could not be done."""
    if network is not None:
        _enter_network(network)
    wanted = sorted(binds, key=lambda bind: len(Path(bind.target).parts))
    if not wanted:
        return
    _check(_libc.unshare(_CLONE_NEWNS), "mounts of its own cannot be made")
    # What is mounted on the machine later still appears; what is mounted here appears nowhere else.
    _mount(None, "/", _MS_REC | _MS_SLAVE, "mounts of its own cannot be made")
    # All sources are found before anything is put over them.
    sources = [_source(bind) for bind in wanted]
    for bind, source in zip(wanted, sources, strict=True):
        _put(bind, source)


def name_host(name: str) -> None:
    """Gives the calling process a host name of its own. Raises `HeadraceError`."""
    what = f"the host cannot be called {name}"
    _check(_libc.unshare(_CLONE_NEWUTS), what)
    try:
        socket.sethostname(name)
    except OSError as error:
        raise EngineError.of(f"{what}: {error.strerror}") from None


def mount_memory(target: str, size_bytes: int) -> None:
    """A file system in memory at a folder. The process must have mounts of its own. Raises `HeadraceError`."""
    options = f"mode=1777,size={size_bytes}".encode()
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV)
    _check(
        _libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", flags, options),
        f"no memory can appear at {target}",
    )


def enter_process(pid: int) -> None:
    """Goes where another process is: to its network, its mounts, its host name. Raises `HeadraceError`."""
    descriptor = os.pidfd_open(pid)
    try:
        what = f"the place of process {pid} cannot be entered"
        _check(_libc.setns(descriptor, _CLONE_NEWNET | _CLONE_NEWNS | _CLONE_NEWUTS), what)
    finally:
        os.close(descriptor)


def _enter_network(name: str) -> None:
    try:
        descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise MissingFileError.of(f"the network of the node is gone: {error.strerror}") from None
    try:
        _check(_libc.setns(descriptor, _CLONE_NEWNET), "the network of the node cannot be entered")
    finally:
        os.close(descriptor)


def network() -> int:
    """The number of the network that the calling process is in: no two that exist have the same."""
    return Path("/proc/self/ns/net").stat().st_ino


def enter_network_number(number: int) -> None:
    """Goes to the network of that number, by way of any process that is there. Raises `HeadraceError`."""
    if network() == number:
        return
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
        with contextlib.suppress(OSError):
            descriptor = os.open(process / "ns" / "net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                # Compared by what is open: the process may be another one by now.
                if os.fstat(descriptor).st_ino == number:
                    _check(_libc.setns(descriptor, _CLONE_NEWNET), "the network cannot be entered")
                    return
            finally:
                os.close(descriptor)
    raise MissingFileError.of("no process is in the network in which the backend began")


def _source(bind: Bind) -> int:
    """A descriptor of what shall appear, which is never outside of its source."""
    root = os.path.realpath(bind.source)
    path = os.path.realpath(f"{root}/{bind.part}") if bind.part else root
    if path != root and not path.startswith(f"{root.rstrip('/')}/"):
        raise ConfigError.of(f"{bind.part} leads out of what shall appear at {bind.target}")
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise MissingFileError.of(
            f"{bind.part or bind.source} cannot appear at {bind.target}: {error.strerror}"
        ) from None


def _put(bind: Bind, source: int) -> None:
    what = f"nothing can appear at {bind.target}"
    try:
        _mount(f"/proc/self/fd/{source}", bind.target, _MS_BIND | _MS_REC, what)
        if bind.read_only:
            _mount(None, bind.target, _MS_BIND | _MS_REMOUNT | _MS_RDONLY, what)
    finally:
        os.close(source)


def _mount(source: str | None, target: str, flags: int, what: str) -> None:
    origin = os.fsencode(source) if source else None
    _check(_libc.mount(origin, os.fsencode(target), None, ctypes.c_ulong(flags), None), what)


def _check(result: int, what: str) -> None:
    if result == 0:
        return
    number = ctypes.get_errno()
    kind: type[HeadraceError] = RefusedError if number in (1, 13) else EngineError
    raise kind.of(f"{what}: {os.strerror(number)}")

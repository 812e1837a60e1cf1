"""Copies of a mount in other mount namespaces: a mount that was taken off here lives on in them.

`unshare`, containers and services with a mount namespace of their own begin with a copy of every mount. Where
unmounting is not handed on to them, the copy keeps the connection, though nobody may know of it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.roles.mountpoint.mount_table import MountEntry, mounts

# Of the namespace in which a machine starts: include/linux/proc_ns.h, PROC_PID_INIT_INO.
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
# As stat(1) shows it; include/uapi/linux/magic.h, EROFS_SUPER_MAGIC_V1.
_EROFS = "e0f5e1e2"
_ANSWER_S = 2.0
_REFUSALS = ("Permission denied", "Operation not permitted")
_PLAIN_WORDS = {"LC_ALL": "C", "PATH": os.defpath}
_NO_FOLDERS = ("/memfd:", "/SYSV", "/dev/zero", "/anon_hugepage")


@dataclass(frozen=True)
class Holder:
    """A process that sees a copy of the mount."""

    pid: int
    name: str
    is_user: bool
    """It has a file, a folder or a map of it, or that cannot be told."""

    def __str__(self) -> str:
        return f"{self.name} ({self.pid})"


def sees_all_processes() -> bool:
    """False in a container, where users in other containers cannot be seen."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE
    except OSError:
        return False


def copies_of(mount: MountEntry) -> frozenset[MountEntry]:
    """All other places where the same file system is mounted, in whatever namespace. Ask before `mount` is taken off.

    Of a view also where one of its earlier lists is.

    Afterwards its number is no name for it: when it was the last, the kernel gives the number to the next file system
    that anybody mounts. No two mounts of a machine have one `id`.
    """
    found: set[MountEntry] = set()
    seen: set[str] = set()
    for process in _processes():
        with contextlib.suppress(OSError):
            # One namespace has one list. Of processes of somebody else that cannot be told: each is looked at.
            namespace = _namespace_of(process)
            if namespace not in seen:
                seen.add(namespace)
                found.update(entry for entry in mounts(process / "mountinfo") if _is_of_one(entry, mount))
    return frozenset(entry for entry in found if entry.id != mount.id)


def _is_of_one(entry: MountEntry, mount: MountEntry) -> bool:
    if mount.is_view:
        return (entry.kind, entry.source) == (mount.kind, mount.source)
    return entry.device == mount.device


def users_of_the_detached() -> Iterator[int]:
    """Processes that have something of a view open or mapped that is on no folder any more: which one it was cannot be
    told. Not those that root may not look into, as the first one of a sandbox: they would keep every mount.

    Descriptors of other file systems are handed on to processes that do not see these: cache files of a worker in
    another container, `/dev/fuse` of one that has ended.
    """
    for process in _processes():
        with contextlib.suppress(OSError):
            if _has_detached(process):
                yield int(process.name)


def _has_detached(process: Path) -> bool:
    seen = {entry.device for entry in mounts(process / "mountinfo")}
    links = [process / "cwd", process / "root", *(process / "fd").iterdir()]
    maps = (process / "maps").read_text(errors="surrogateescape").splitlines()
    suspects = [link for link in links if _is_detached(link, seen)]
    suspects += [_map_file(process, line) for line in maps if _maps_detached(line, seen)]
    return bool(suspects) and _are_of_a_view(suspects)


def _are_of_a_view(links: list[Path]) -> bool:
    """True if one of the files lies in an EROFS, or may not be asked. That fails for no other reason there: who has no
    answer was closed meanwhile, or lies in a FUSE that has ended.

    By a process of its own: a FUSE has to be asked what it is, and one whose process stands still does not answer.
    """
    command = ["stat", "--file-system", "--dereference", "--format", "%t", *map(str, links)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_ANSWER_S, env=_PLAIN_WORDS
        )
    except subprocess.TimeoutExpired:
        # An EROFS answers by itself; the others are asked one by one.
        return len(links) > 1 and any(_are_of_a_view([link]) for link in links)
    return _EROFS in done.stdout.split() or any(line.endswith(_REFUSALS) for line in done.stderr.splitlines())


def _map_file(process: Path, line: str) -> Path:
    """What lies behind a line of /proc/PID/maps."""
    start, end = (int(number, 16) for number in line.split(maxsplit=1)[0].split("-"))
    return process / "map_files" / f"{start:x}-{end:x}"


def _is_detached(link: Path, seen: set[str]) -> bool:
    with contextlib.suppress(FileNotFoundError):
        target = str(link.readlink())
        if not _is_on_folder(target) or (target == "/" and _is_path(link)):
            return False
        facts = link.stat()
        # A view has no devices; that of FUSE itself is handed on.
        is_data = stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)
        return is_data and os.major(facts.st_dev) == 0 and f"0:{os.minor(facts.st_dev)}" not in seen
    return False  # Closed since the list of them was made.


def _maps_detached(line: str, seen: set[str]) -> bool:
    """True for a line of /proc/PID/maps with something detached: its descriptor may be closed."""
    words = line.split(maxsplit=5)
    if len(words) < 6 or not _is_on_folder(words[5]):
        return False
    major, minor = (int(number, 16) for number in words[3].split(":"))
    return major == 0 and f"0:{minor}" not in seen


def _is_on_folder(target: str) -> bool:
    # Sockets, pipes and memory are on no folder at any time, and have names of their own kind.
    return target.startswith("/") and not target.startswith(_NO_FOLDERS)


def _is_path(link: Path) -> bool:
    """True for a descriptor of a place alone, as the processes of every view have one of its connection."""
    if link.parent.name != "fd":
        return False
    facts = (link.parent.parent / "fdinfo" / link.name).read_text()
    return bool(int(facts.partition("flags:")[2].split()[0], 8) & os.O_PATH)


def holders_of(copies: frozenset[MountEntry]) -> list[Holder]:
    """The processes whose mount namespace still has one of the copies."""
    return list(_holders(copies)) if copies else []


def _holders(copies: frozenset[MountEntry]) -> Iterator[Holder]:
    for process in _processes():
        try:
            paths = [entry.path for entry in mounts(process / "mountinfo") if entry in copies]
            name = (process / "comm").read_text(errors="replace").strip()
        except OSError:
            continue
        if paths:
            yield Holder(int(process.name), name, _uses(process, paths))


def _processes() -> Iterator[Path]:
    return (process for process in Path("/proc").iterdir() if process.name.isdigit())


def _namespace_of(process: Path) -> str:
    try:
        return str((process / "ns" / "mnt").readlink())
    except PermissionError:
        return process.name


def _uses(process: Path, paths: list[str]) -> bool:
    try:
        links = [process / "cwd", process / "root", *(process / "fd").iterdir()]
        targets = [str(link.readlink()) for link in links]
        maps = (process / "maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        # Of somebody else, or just ending: not known to be idle.
        return True
    targets += [line.split(maxsplit=5)[5] for line in maps if line.count(" /")]
    return any(target == path or target.startswith(f"{path}/") for target in targets for path in paths)

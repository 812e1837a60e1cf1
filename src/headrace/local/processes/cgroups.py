"""Control groups that limit memory and processors of programs, by either of the kernel's interfaces. Takes root.

A group lies where this process itself is, so that what limits us limits it as well. Version 2 gives limits only to
groups beside which no process runs: there it lies in the nearest group above of which that is so.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError, UnsupportedError

_MOUNTS = Path("/proc/self/mounts")
_OWN = Path("/proc/self/cgroup")
_MEMBERS = "cgroup.procs"
_SHARED = "cgroup.subtree_control"
_PERIOD_US = 100_000
_SHORTEST_QUOTA_US = 1000
# What was killed a moment ago may still be leaving.
_LEAVING_S = 2.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of programs together; `None`: as much as there is."""

    memory_bytes: int | None = None
    cpus: float | None = None

    @property
    def controllers(self) -> tuple[str, ...]:
        """The controllers of the kernel that it takes."""
        asked = (("memory", self.memory_bytes), ("cpu", self.cpus))
        return tuple(name for name, limit in asked if limit is not None)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A group in one hierarchy, and what it limits there."""

    path: Path
    controllers: tuple[str, ...]
    is_second_version: bool


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group that may not be made yet."""

    limits: Limits
    _folders: tuple[_Folder, ...]

    @classmethod
    def planned(cls, name: str, limits: Limits) -> ControlGroup:
        """The control group at its future place. Raises `UnsupportedError` where the kernel has no place for one."""
        hierarchies = _hierarchies()
        found: dict[Path, _Folder] = {}
        for controller in limits.controllers:
            second, place = _place(controller, hierarchies)
            known = found[place].controllers if place in found else ()
            found[place] = _Folder(place / name, (*known, controller), second)
        return cls(limits, tuple(found.values()))

    @property
    def paths(self) -> tuple[Path, ...]:
        """Its folders: whoever knows them can remove it."""
        return tuple(each.path for each in self._folders)

    def make(self) -> None:
        """Makes it, with its limits. Raises `OSError`, and leaves nothing then."""
        try:
            for folder in self._folders:
                folder.path.mkdir()
                self._limit(folder)
        except OSError:
            remove_groups(self.paths)
            raise

    def join(self) -> None:
        """Puts the calling process in. Raises `OSError`."""
        for path in self.paths:
            (path / _MEMBERS).write_text("0")

    def kills(self) -> int:
        """The number of its processes that the kernel has killed, since they had no memory left."""
        for folder in self._folders:
            if "memory" in folder.controllers:
                file = "memory.events" if folder.is_second_version else "memory.oom_control"
                lines = (folder.path / file).read_text().splitlines()
                counts = dict(line.split(" ", 1) for line in lines)
                return int(counts.get("oom_kill", "0"))
        return 0

    def _limit(self, folder: _Folder) -> None:
        if "memory" in folder.controllers and self.limits.memory_bytes is not None:
            _limit_memory(folder, self.limits.memory_bytes)
        if "cpu" in folder.controllers and self.limits.cpus is not None:
            quota_us = max(int(self.limits.cpus * _PERIOD_US), _SHORTEST_QUOTA_US)
            if folder.is_second_version:
                (folder.path / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
            else:
                (folder.path / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (folder.path / "cpu.cfs_quota_us").write_text(str(quota_us))


def why_not(limits: Limits) -> str:
    """Why such limits cannot be set here, found out by trying; empty when they can."""
    if not limits.controllers:
        return ""
    try:
        group = ControlGroup.planned(f"headrace-try-{os.getpid()}", limits)
        group.make()
        remove_groups(group.paths)
    except OSError as error:
        return error.message if isinstance(error, HeadraceError) else f"{error.filename}: {error.strerror}"
    return ""


def remove_groups(paths: Iterable[Path]) -> None:
    """Removes groups in which nothing runs any more. One that is gone, or no group, is left alone."""
    deadline = time.monotonic() + _LEAVING_S
    for path in paths:
        if not (path / _MEMBERS).exists():
            continue
        while True:
            try:
                path.rmdir()
            except OSError:
                if path.exists() and time.monotonic() < deadline:
                    time.sleep(_POLL_S)
                    continue
            break


def _limit_memory(folder: _Folder, size_bytes: int) -> None:
    # Without it, what goes over its memory goes to the swap instead. Not every kernel has it.
    if folder.is_second_version:
        (folder.path / "memory.max").write_text(str(size_bytes))
        (folder.path / "memory.oom.group").write_text("1")
        swap, most = folder.path / "memory.swap.max", "0"
    else:
        (folder.path / "memory.limit_in_bytes").write_text(str(size_bytes))
        swap, most = folder.path / "memory.memsw.limit_in_bytes", str(size_bytes)
    if swap.exists():
        swap.write_text(most)


@dataclass(frozen=True, slots=True)
class _Hierarchy:
    """A tree of groups: where it is, what it controls (version 1), and where in it we are."""

    top: Path
    controllers: frozenset[str]
    own: Path
    is_second_version: bool


def _hierarchies() -> list[_Hierarchy]:
    own = {}
    for line in _OWN.read_text().splitlines():
        _, names, path = line.split(":", 2)
        own[names] = path.lstrip("/")
    found = []
    for line in _MOUNTS.read_text().splitlines():
        _, where, kind, options = line.split(" ")[:4]
        top = Path(where)
        if kind == "cgroup2":
            found.append(_Hierarchy(top, frozenset(), _within(top, own.get("", "")), True))
        elif kind == "cgroup":
            for names, path in own.items():
                if names and set(names.split(",")) <= set(options.split(",")):
                    here = _within(top, path)
                    found.append(_Hierarchy(top, frozenset(names.split(",")), here, False))
    return found


def _within(top: Path, path: str) -> Path:
    """Our own group, or the top where it cannot be seen: in a container of which only a part is shown."""
    own = top / path
    return own if ".." not in own.parts and own.is_dir() else top


def _place(controller: str, hierarchies: Sequence[_Hierarchy]) -> tuple[bool, Path]:
    """Where groups with this controller can be made. Raises `UnsupportedError` where nowhere."""
    why = f"the kernel shows no control groups for {controller}"
    for each in hierarchies:
        if not each.is_second_version and controller in each.controllers:
            return False, each.own
    for each in (each for each in hierarchies if each.is_second_version):
        if controller not in (each.top / "cgroup.controllers").read_text().split():
            continue
        for place in (each.own, *each.own.parents):
            if _shares(place, controller):
                return True, place
            if place == each.top:
                break
        why = f"no group above ours gives {controller} to those below it"
    raise UnsupportedError.of(why)


def _shares(group: Path, controller: str) -> bool:
    """True when groups below this one have the controller, which is asked for if need be."""
    file = group / _SHARED
    if controller in file.read_text().split():
        return True
    # Refused where processes run in it.
    with contextlib.suppress(OSError):
        file.write_text(f"+{controller}")
        return True
    return False

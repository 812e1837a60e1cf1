"""Who uses a mount now: processes with a file open, mapped or executed below it, or with their folder there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.plan.observed import UseFacts


def users_of(mountpoints: Mapping[str, str], own: frozenset[int]) -> tuple[UseFacts, ...]:
    """The users of mountpoints, which are given with their nodes. `own` are processes that do not count. Blocks."""
    if not mountpoints:
        return ()
    found: dict[tuple[str, str], UseFacts] = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) in own or int(process.name) == os.getpid():
            continue
        for node in _used_by(process, mountpoints):
            name = f"process {process.name} ({_name(process)})"
            found[name, node] = UseFacts(name, node)
    return tuple(found[each] for each in sorted(found))


def _used_by(process: Path, mountpoints: Mapping[str, str]) -> set[str]:
    """The nodes whose mounts it uses."""
    targets, maps = list(_targets(process)), _maps(process)
    return {
        node
        for mountpoint, node in mountpoints.items()
        if f" {mountpoint}/" in maps
        or any(target == mountpoint or target.startswith(f"{mountpoint}/") for target in targets)
    }


def _targets(process: Path) -> Iterator[str]:
    yield from (_target(process / "cwd"), _target(process / "root"))
    try:
        links = list((process / "fd").iterdir())
    except OSError:
        # It has ended meanwhile, or is another user's.
        return
    yield from map(_target, links)


def _maps(process: Path) -> str:
    """What it has mapped, its program among it. One read, which touches no file."""
    try:
        return (process / "maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "ended"

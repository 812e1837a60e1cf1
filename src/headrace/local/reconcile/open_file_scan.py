"""Users of a mount now: processes with a file open, mapped or executed below it, or with their folder there.

To know that of one mount means to look at every process of the machine, so one such look answers for all mounts.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.plan.observed import ConsumerFacts

# NODE/mounts/NAMESPACE/NAME below the folder of the nodes.
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A process with something below a folder: at or below `path`."""

    pid: int
    name: str
    path: str


class OpenFileScan:
    """The files that all processes have open below one folder, scanned once for all who ask. Used from one event
    loop."""

    def __init__(self, folder: Path, depth: int = _DEPTH) -> None:
        self._folder = str(folder)
        self._depth = depth
        self._found: tuple[OpenFile, ...] = ()
        self._begun_s = -math.inf
        self._scanning: asyncio.Task[None] | None = None

    async def latest(self, newest_s: float) -> tuple[OpenFile, ...]:
        """The files seen at most so many seconds ago; with 0, from now on."""
        wanted_s = time.monotonic() - newest_s
        while self._begun_s < wanted_s:
            if self._scanning is None:
                self._scanning = asyncio.create_task(self._scan())
            await asyncio.shield(self._scanning)
        return self._found

    async def _scan(self) -> None:
        begun_s = time.monotonic()
        try:
            self._found = await asyncio.to_thread(processes_below, self._folder, self._depth)
            self._begun_s = begun_s
        finally:
            self._scanning = None


def users_of(
    mountpoints: Mapping[str, str], own: frozenset[int], found: Iterable[OpenFile]
) -> tuple[ConsumerFacts, ...]:
    """The users of mountpoints, which are given with their nodes. `own` are processes that do not count."""
    consumers = {
        (f"process {each.pid} ({each.name})", mountpoints[each.path])
        for each in found
        if each.path in mountpoints and each.pid not in own
    }
    return tuple(ConsumerFacts(*consumer) for consumer in sorted(consumers))


def processes_below(folder: str, depth: int) -> tuple[OpenFile, ...]:
    """The files of processes but this one below a folder, each path cut after so many names below it. Blocks."""
    top, mapped = f"{folder}/", re.compile(rf" ({re.escape(folder)}/.*)")
    found: list[OpenFile] = []
    for process in os.listdir("/proc"):  # noqa: PTH208
        if not process.isdigit() or int(process) == os.getpid():
            continue
        paths = {path for path in _targets(f"/proc/{process}") if path.startswith(top)}
        maps = _maps(process)
        paths |= set(mapped.findall(maps)) if top in maps else set()
        if paths:
            name = _name(process)
            found += [
                OpenFile(int(process), name, path) for path in {_cut(path, top, depth) for path in paths}
            ]
    return tuple(found)


def _cut(path: str, top: str, depth: int) -> str:
    return top + "/".join(path.removeprefix(top).split("/", depth)[:depth])


def _targets(process: str) -> Iterator[str]:
    # Thousands of links in a look: without the comfort of Path, which costs more than the kernel does.
    with contextlib.suppress(OSError):  # It has ended meanwhile, or is another user's.
        links = [f"{process}/cwd", f"{process}/root"]
        links += [f"{process}/fd/{number}" for number in os.listdir(f"{process}/fd")]  # noqa: PTH208
        for link in links:
            with contextlib.suppress(OSError):
                yield os.readlink(link)  # noqa: PTH115


def _maps(process: str) -> str:
    """What it has mapped, its program among it. One read, which touches no file."""
    try:
        return Path(f"/proc/{process}/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _name(process: str) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "ended"

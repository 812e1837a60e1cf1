"""Who uses datasets from this backend: programs of `headrace run`, and operations. Written down before it begins.

A use of a program lasts for as long as the process that asked for it, or any that it started. What is written down
here is what the planner sees as users, so mounts come where it says, and no dataset goes away under it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headrace.engine.registry import started_ticks
from headrace.local.database import Database
from headrace.local.folders import Folders
from headrace.local.marks import marked_processes
from headrace.local.reconciler import Dataset

_log = logging.getLogger("headrace.local")

_PREFIX = "use:"
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Use:
    """One user on one node. Its processes have `id` in their mark. Without a process it lasts until it is ended.

    `paths` is where each of the datasets appears; empty for one that is used where it is mounted. At `folders`
    other things appear, and at `files` single files.
    """

    id: str
    title: str
    node: str
    datasets: tuple[Dataset, ...]
    paths: tuple[str, ...]
    folders: tuple[str, ...] = ()
    pid: int = 0
    started_ticks: int = 0
    files: tuple[str, ...] = ()

    @property
    def mountpoints(self) -> tuple[Path, ...]:
        """Where there must be folders."""
        return tuple(Path(path) for path in (*self.paths, *self.folders) if path)

    @property
    def places(self) -> tuple[Path, ...]:
        """Where there must be something."""
        return (*self.mountpoints, *map(Path, self.files))

    @property
    def user(self) -> str:
        """Who it is, for people."""
        return f"{self.title} (process {self.pid})" if self.pid else self.title


class Uses:
    """All uses of one backend. Used from one event loop."""

    def __init__(
        self, database: Database, folders: Folders, on_change: Callable[[Iterable[Dataset]], None]
    ) -> None:
        """`on_change` is told whose datasets are used by others than before."""
        self._database = database
        self._folders = folders
        self._on_change = on_change
        self._uses = {use.id: use for use in read_uses(database)}
        self._some = asyncio.Event()

    def all(self) -> list[Use]:
        """Those that are written down."""
        return [self._uses[each] for each in sorted(self._uses)]

    def get(self, use_id: str) -> Use | None:
        """One of them."""
        return self._uses.get(use_id)

    def of(self, dataset: Dataset) -> Iterator[Use]:
        """Those of one dataset."""
        return (use for use in self.all() if dataset in use.datasets)

    def begin(self, use: Use) -> None:
        """Writes it down and makes the folders at its paths. Raises `ConfigError` or `RefusedError` for those."""
        self._write(use)
        try:
            for path in use.mountpoints:
                self._folders.stand(path)
            for file in use.files:
                self._folders.stand_file(Path(file))
        except BaseException:
            self.end(use.id)
            raise
        self._some.set()
        self._on_change(use.datasets)

    def end(self, use_id: str) -> None:
        """It is over; folders that were made for it go, unless another one needs them."""
        use = self._uses.pop(use_id, None)
        if use is None:
            return
        needed = [path for other in self._uses.values() for path in other.places]
        for path in reversed(use.places):
            self._folders.unstand(path, needed)
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM facts WHERE name = ?", (f"{_PREFIX}{use_id}",))
        self._on_change(use.datasets)

    async def follow(self) -> None:
        """Ends the uses whose processes have ended, until it is cancelled."""
        while True:
            if not any(use.pid for use in self._uses.values()):
                self._some.clear()
                await self._some.wait()
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(OSError):
                await self._end_finished()

    async def _end_finished(self) -> None:
        gone = [use for use in self.all() if use.pid and started_ticks(use.pid) != use.started_ticks]
        if not gone:
            return
        alive = await asyncio.to_thread(marked_processes, self._database.instance)
        going_on = {each.role: each for each in alive}
        for use in gone:
            heir = going_on.get(use.id)
            if heir is None:
                _log.info("use/%s: ended on %s", use.id, use.node)
                self.end(use.id)
            else:
                self._write(replace(use, pid=heir.pid, started_ticks=heir.started_ticks))

    def _write(self, use: Use) -> None:
        self._database.note(f"{_PREFIX}{use.id}", json.dumps(asdict(use)))
        self._uses[use.id] = use


def read_uses(database: Database) -> list[Use]:
    """The uses that are written down."""
    with database.reading() as connection:
        rows = connection.execute(
            "SELECT value FROM facts WHERE name GLOB ? ORDER BY name", (f"{_PREFIX}*",)
        ).fetchall()
    return [_use(json.loads(text)) for (text,) in rows]


def _use(content: dict[str, Any]) -> Use:
    datasets = tuple((namespace, name) for namespace, name in content.pop("datasets"))
    lists = {name: tuple(content.get(name, ())) for name in ("paths", "folders", "files")}
    return Use(**{**content, "datasets": datasets, **lists})

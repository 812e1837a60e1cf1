"""The users of datasets from this backend: programs of `headrace run`, and operations. Written down before it begins.

A use of a program lasts for as long as the process that asked for it, or any that it started. The planner takes the
recorded ones as users, so mounts come where it says, and no dataset goes away under them.
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

from headrace.local.nodes.managed_folders import ManagedFolders
from headrace.local.processes.process_tags import tagged_processes
from headrace.local.reconciler import Dataset
from headrace.local.store.database import Database
from headrace.local.store.rows import readable
from headrace.process.stat import started_ticks

_log = logging.getLogger("headrace.local")

_PREFIX = "use:"
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Consumer:
    """One user on one node. Its processes have `id` in their tag. Without a process it lasts until it is ended.

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
        """The paths that must be folders."""
        return tuple(Path(path) for path in (*self.paths, *self.folders) if path)

    @property
    def places(self) -> tuple[Path, ...]:
        """The paths that must exist."""
        return (*self.mountpoints, *map(Path, self.files))

    @property
    def user(self) -> str:
        """Its name, for people."""
        return f"{self.title} (process {self.pid})" if self.pid else self.title


class Consumers:
    """All uses of one backend. Used from one event loop."""

    def __init__(
        self, database: Database, folders: ManagedFolders, on_change: Callable[[Iterable[Dataset]], None]
    ) -> None:
        """`on_change` is told whose datasets are used by others than before."""
        self._database = database
        self._folders = folders
        self._on_change = on_change
        self._consumers = {consumer.id: consumer for consumer in read_consumers(database)}
        self._some = asyncio.Event()

    def all(self) -> list[Consumer]:
        """The recorded consumers."""
        return [self._consumers[each] for each in sorted(self._consumers)]

    def get(self, consumer_id: str) -> Consumer | None:
        """One of them."""
        return self._consumers.get(consumer_id)

    def of(self, dataset: Dataset) -> Iterator[Consumer]:
        """Those of one dataset."""
        return (consumer for consumer in self.all() if dataset in consumer.datasets)

    def begin(self, consumer: Consumer) -> None:
        """Writes it down and makes the folders at its paths. Raises `ConfigError` or `RefusedError` for those."""
        self._write(consumer)
        try:
            for path in consumer.mountpoints:
                self._folders.stand(path)
            for file in consumer.files:
                self._folders.stand_file(Path(file))
        except BaseException:
            self.end(consumer.id)
            raise
        self._some.set()
        self._on_change(consumer.datasets)

    def end(self, consumer_id: str) -> None:
        """It is over; folders that were made for it go, unless another one needs them."""
        consumer = self._consumers.pop(consumer_id, None)
        if consumer is None:
            return
        needed = [path for other in self._consumers.values() for path in other.places]
        for path in reversed(consumer.places):
            self._folders.unstand(path, needed)
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM facts WHERE name = ?", (f"{_PREFIX}{consumer_id}",))
        self._on_change(consumer.datasets)

    async def follow(self) -> None:
        """Ends the uses whose processes have ended, until it is cancelled."""
        while True:
            if not any(consumer.pid for consumer in self._consumers.values()):
                self._some.clear()
                await self._some.wait()
            await asyncio.sleep(_POLL_S)
            with contextlib.suppress(OSError):
                await self._end_finished()

    async def _end_finished(self) -> None:
        gone = [
            consumer
            for consumer in self.all()
            if consumer.pid and started_ticks(consumer.pid) != consumer.started_ticks
        ]
        if not gone:
            return
        alive = await asyncio.to_thread(tagged_processes, self._database.instance)
        going_on = {each.role: each for each in alive}
        for consumer in gone:
            successor = going_on.get(consumer.id)
            if successor is None:
                _log.info("use/%s: ended on %s", consumer.id, consumer.node)
                self.end(consumer.id)
            else:
                self._write(replace(consumer, pid=successor.pid, started_ticks=successor.started_ticks))

    def _write(self, consumer: Consumer) -> None:
        self._database.note(f"{_PREFIX}{consumer.id}", json.dumps(asdict(consumer)))
        self._consumers[consumer.id] = consumer


def read_consumers(database: Database) -> list[Consumer]:
    """The uses that are written down."""
    with database.reading() as connection:
        rows = connection.execute(
            "SELECT name, value FROM facts WHERE name GLOB ? ORDER BY name", (f"{_PREFIX}*",)
        ).fetchall()
    return readable(rows, "use", _use)


def _use(content: dict[str, Any]) -> Consumer:
    datasets = tuple((namespace, name) for namespace, name in content.pop("datasets"))
    lists = {name: tuple(content.get(name, ())) for name in ("paths", "folders", "files")}
    return Consumer(**{**content, "datasets": datasets, **lists})

"""The master's knowledge and its decisions, put together: members, snapshots, pins, loads, throughput, durable state.

Runs on one event loop. Knows neither HTTP nor the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.control.changes import Changes
from headrace.control.loads import Loads, Runner, RunningLoad
from headrace.control.messages import (
    DatasetNote,
    DrainOrder,
    Heartbeat,
    HeartbeatAnswer,
    LoadAction,
    LoadOrder,
    LoadReport,
    MountHeartbeat,
    Outlook,
    Refreshed,
    Traffic,
    decode_paths,
)
from headrace.control.mounts import INTERVAL_S, Mounts
from headrace.control.pins import FileIds, PinBoard
from headrace.control.roster import Roster
from headrace.control.saving import Saver, load_state
from headrace.control.shelf import Lister, Shelf
from headrace.control.traffic import Throughput
from headrace.errors import BusyError, ConfigError, HeadraceError

_log = logging.getLogger("headrace.master")

TICK_S = 0.5


@dataclass(frozen=True)
class ClusterRules:
    """What the master's settings say of the cluster."""

    name: str
    state_directory: Path
    dataset: DatasetNote
    origin_labels: tuple[str, ...]
    replicas: int
    heartbeat_interval_s: float
    dead_after_s: float
    refresh_interval_s: float
    snapshot_at_start: bool


class LoadStarter:
    """What the engine needs for a load; `view` is that of the moment."""

    def __init__(self, start: Callable[[LoadReport, Path, str], RunningLoad], cluster: Cluster) -> None:
        self._start, self._cluster = start, cluster

    def start(self, report: LoadReport) -> tuple[RunningLoad, int]:
        """Starts a load against the newest snapshot; blocks."""
        held = self._cluster.shelf.newest
        if held is None:
            raise BusyError.of("there is no snapshot yet", hint="`headrace status --cluster URL` says why")
        view = json.dumps(self._cluster.roster.view())
        return self._start(report, held.path, view), held.note.version


class Cluster:
    """One cluster, from its master's side."""

    def __init__(
        self,
        rules: ClusterRules,
        lister: Lister,
        start_load: Callable[[LoadReport, Path, str], RunningLoad],
        file_ids: FileIds,
    ) -> None:
        self.rules = rules
        self.roster = Roster(replicas=rules.replicas, dead_after_s=rules.dead_after_s)
        self.shelf = Shelf(rules.state_directory / "snapshots", lister)
        self.pin_board = PinBoard(file_ids)
        self.throughput = Throughput()
        self.mounts = Mounts(self.throughput)
        self.changes = Changes()
        self.heartbeats = 0
        self._path = rules.state_directory / "state.json"
        self._saver = Saver(self._path, self._dump)
        runner: Runner = LoadStarter(start_load, self)
        self.loads = Loads(runner, self._saver.save)
        self._tasks: list[asyncio.Task[None]] = []
        self._refreshing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Takes up what earlier masters left, and begins to work. A first snapshot is on its way afterwards."""
        state = await asyncio.to_thread(load_state, self._path, time.time())
        self._restore(state)
        await self.shelf.open()
        await self._resolve_pins()
        self._tasks = [
            asyncio.create_task(self._tick_forever()),
            asyncio.create_task(self._refresh_forever()),
        ]
        self.loads.resume()

    async def close(self) -> None:
        """Ends all tasks, and saves."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.loads.close()
        await self._saver.try_to_save()

    # --- members ---

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Takes a worker's heartbeat. Raises `ConfigError` when it reads other origins, `BusyError` for a double id."""
        self._check_dataset(beat)
        self.heartbeats += 1
        if self.roster.beat(beat, time.monotonic()):
            _log.info(
                "master: epoch %d: worker %s (%s) is %s", self.roster.epoch, beat.id, beat.address, beat.state
            )
            self._view_changed()
        # What a worker hands out is counted where it is read; only what it fetches is seen by nobody else.
        fetched = Traffic(origin_bytes=beat.traffic.origin_bytes)
        self.throughput.note(f"worker/{beat.id}", beat.instance, fetched)
        return HeartbeatAnswer(
            outlook=self.outlook(after_epoch=beat.known_epoch),
            next_interval_s=self.rules.heartbeat_interval_s,
            drain=self.roster.is_to_drain(beat.id),
        )

    def mount_heartbeat(self, beat: MountHeartbeat) -> HeartbeatAnswer:
        """Takes a mount's report."""
        self.heartbeats += 1
        self.mounts.note(beat, time.monotonic())
        return HeartbeatAnswer(outlook=self.outlook(after_epoch=beat.known_epoch), next_interval_s=INTERVAL_S)

    def outlook(self, *, after_epoch: int) -> Outlook:
        """What members go by; with the view when the epoch is not `after_epoch`."""
        newest = self.shelf.newest
        return Outlook(
            cluster=self.rules.name,
            epoch=self.roster.epoch,
            view=None if after_epoch == self.roster.epoch else self.roster.view(),
            snapshot=newest.note if newest else None,
            dataset=self.rules.dataset,
            pins_version=self.pin_board.pins.version,
            replicas=self.rules.replicas,
        )

    async def wait_for_news(self, after_epoch: int, after_snapshot: int, timeout_s: float) -> Outlook:
        """The outlook as soon as epoch or snapshot is another one, at the latest after `timeout_s`."""

        def is_news() -> bool:
            version = self.shelf.newest.note.version if self.shelf.newest else 0
            return self.roster.epoch != after_epoch or version != after_snapshot

        await self.changes.wait_for(is_news, timeout_s)
        return self.outlook(after_epoch=after_epoch)

    async def drain(self, order: DrainOrder) -> None:
        """Orders a worker to hand its blocks over and to end, or to stay. Raises `MissingFileError`."""
        if self.roster.drain(order.id, cancel=order.cancel):
            _log.info("master: worker %s is to %s", order.id, "stay" if order.cancel else "drain")
            self._view_changed(save=False)
        await self._saver.save()

    # --- data ---

    async def refresh(self) -> Refreshed:
        """Takes a new snapshot and tells everybody."""
        refreshed = await self.shelf.refresh()
        _log.info("master: snapshot %d: %d files", refreshed.version, refreshed.files)
        await self._resolve_pins()
        self.changes.announce()
        return refreshed

    async def start_load(self, order: LoadOrder) -> LoadReport:
        """Starts a load; pins begin and end at once. What is evicted is no longer pinned."""
        if order.action is not LoadAction.LOAD:
            self.pin_board.unpin(decode_paths(order.paths) or [b""])
        elif order.pin:
            self.pin_board.pin(order.paths or ("",))
        if order.pin or order.action is not LoadAction.LOAD:
            await self._resolve_pins()
        return await self.loads.start(order)

    # --- inside ---

    def _view_changed(self, *, save: bool = True) -> None:
        self.loads.set_view(json.dumps(self.roster.view()))
        self.changes.announce()
        if save:
            task = asyncio.create_task(self._saver.try_to_save())
            self._tasks.append(task)
            task.add_done_callback(self._tasks.remove)

    def _check_dataset(self, beat: Heartbeat) -> None:
        if beat.dataset and beat.dataset != self.rules.dataset.fingerprint:
            raise ConfigError.of(
                f"worker '{beat.id}' has other origins than the master of cluster '{self.rules.name}'",
                hint="give it the same `origins` (path, address, endpoint) as the master's",
            )

    async def _resolve_pins(self) -> None:
        newest = self.shelf.newest
        await self.pin_board.resolve(newest.path if newest else None)

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._tick(time.monotonic())

    def _tick(self, now_s: float) -> None:
        dead = self.roster.tick(now_s)
        for member_id in dead:
            _log.warning("master: epoch %d: worker %s is silent and taken out", self.roster.epoch, member_id)
            self.throughput.forget(f"worker/{member_id}")
        if dead:
            self._view_changed()
        self.mounts.tick(now_s)
        self.throughput.sample(time.time())

    async def _refresh_forever(self) -> None:
        interval_s = self.rules.refresh_interval_s
        if self.shelf.newest is None or self.rules.snapshot_at_start:
            await self._refresh_until_there()
        while interval_s > 0:
            await asyncio.sleep(interval_s)
            await self._try_to_refresh()

    async def _refresh_until_there(self) -> None:
        wait_s = 1.0
        while not await self._try_to_refresh():
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, 60.0)

    async def _try_to_refresh(self) -> bool:
        try:
            await self.refresh()
        except HeadraceError as error:
            _log.error("master: no new snapshot: %s", error)
            return False
        with contextlib.suppress(OSError):
            self.shelf.prune(self.mounts.snapshots_in_use() | self.loads.snapshots_in_use())
        return True

    def _dump(self) -> dict[str, Any]:
        return {
            "cluster": self.rules.name,
            "membership": self.roster.dump(),
            "pins": list(self.pin_board.paths),
            "loads": self.loads.dump(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.roster.restore(state.get("membership", {}))
        self.pin_board.restore(state.get("pins", ()))
        self.loads.restore(state.get("loads", ()))

"""The master's knowledge and its decisions, put together: members, snapshots, pins, loads, throughput, durable state.

Runs on one event loop. Knows neither HTTP nor the engine.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from headrace.control.loads import Loads, RunningLoad
from headrace.control.long_poll import LongPolls
from headrace.control.messages import (
    DatasetNote,
    DrainOrder,
    Heartbeat,
    HeartbeatAnswer,
    HeartbeatOrder,
    LoadAction,
    LoadOrder,
    LoadReport,
    MountHeartbeat,
    Outlook,
    Refreshed,
    Traffic,
    decode_paths,
)
from headrace.control.mount_reports import INTERVAL_S, Mounts
from headrace.control.pins import PinBoard
from headrace.control.roster import Roster
from headrace.control.saving import Saver, load_state
from headrace.control.shelf import Lister, Shelf
from headrace.control.traffic import Throughput
from headrace.errors import BusyError, ConfigError, HeadraceError
from headrace.membership import Level, Outcome, Policy, View

_log = logging.getLogger("headrace.master")

TICK_S = 0.5


@dataclass(frozen=True)
class ClusterRules:
    """The cluster's rules from the master's settings."""

    name: str
    state_directory: Path
    snapshot_directory: Path
    dataset: DatasetNote
    origin_labels: tuple[str, ...]
    policy: Policy
    refresh_interval_s: float
    mount_interval_s: float = INTERVAL_S


class MasterEngine(Lister, Protocol):
    """The engine's work for a master. Its methods block, and are called in threads."""

    def origins(self) -> tuple[tuple[str, str], ...]:
        """Place in the tree and canonical name of each origin; empty until the engine knows."""
        ...

    def set_view(self, view_json: str) -> None:
        """Makes loads go by these workers from now on."""
        ...

    def start(self, report: LoadReport) -> RunningLoad:
        """Starts a load by the newest snapshot."""
        ...

    def file_ids(self, paths: Sequence[bytes]) -> bytes:
        """The ids of all files at or below paths, 16 bytes each, one after the other."""
        ...


class Cluster:
    """One cluster, from its master's side."""

    def __init__(self, rules: ClusterRules, engine: MasterEngine) -> None:
        self.rules = rules
        # By the clock, so that no earlier master of these workers has used the epochs that follow. In milliseconds: one
        # that was replaced within the second has published several.
        self.roster = Roster(rules.policy, time.monotonic(), first_epoch=time.time_ns() // 1_000_000)
        self.view: View = self.roster.empty_view
        self.shelf = Shelf(rules.snapshot_directory, engine)
        self.pin_board = PinBoard(engine.file_ids)
        self.throughput = Throughput()
        self.mounts = Mounts(self.throughput)
        self.changes = LongPolls()
        self.heartbeats = 0
        self._engine = engine
        self._path = rules.state_directory / "state.json"
        self._saver = Saver(self._path, self._dump)
        self.loads = Loads(engine, self._saver.save, self._note_cached)
        self._dataset = rules.dataset
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Takes up what earlier masters left, and begins to work. A first snapshot is on its way afterwards."""
        state = await asyncio.to_thread(load_state, self._path, time.time())
        await self._restore(state)
        await self.shelf.open()
        self._tasks = [
            asyncio.create_task(self._tick_forever()),
            asyncio.create_task(self._refresh_forever()),
        ]

    async def work(self) -> None:
        """Goes on for as long as the master, and raises the fault that ends one of its tasks."""
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """Ends all tasks, and saves."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.loads.close()
        await self._saver.try_to_save()

    # --- members ---

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Takes a worker's heartbeat. Raises `ConfigError` when it reads other origins, or cannot be listed."""
        self._check_dataset(beat)
        self.heartbeats += 1
        outcome = self.roster.beat(beat, time.monotonic())
        await self._take(outcome)
        # What a worker hands out is counted where it is read; only what it fetches is seen by nobody else.
        traffic = beat.traffic
        fetched = Traffic(origin_bytes=traffic.origin_bytes, loaded_bytes=traffic.loaded_bytes)
        self.throughput.note(f"worker/{beat.id}", str(beat.incarnation), fetched, time.monotonic())
        reply = outcome.reply
        return HeartbeatAnswer(
            outlook=self.outlook(after_epoch=beat.known_epoch),
            next_interval_s=reply.interval_s if reply else self.rules.policy.heartbeat_s,
            order=HeartbeatOrder(reply.order.value) if reply else HeartbeatOrder.STOP,
        )

    def _note_cached(self, by_worker: Mapping[str, int]) -> None:
        self.roster.note_cached(by_worker, time.monotonic())

    def mount_heartbeat(self, beat: MountHeartbeat) -> HeartbeatAnswer:
        """Takes a mount's report."""
        self.heartbeats += 1
        self.mounts.note(beat, time.monotonic())
        return HeartbeatAnswer(
            outlook=self.outlook(after_epoch=beat.known_epoch), next_interval_s=self.rules.mount_interval_s
        )

    def outlook(self, *, after_epoch: int) -> Outlook:
        """The outlook of members; with the view where that is news for one who knows that of `after_epoch`.

        A member that knows none is given the one that there is, be it without members: an engine wants one to begin
        with.
        """
        newest = self.shelf.newest
        return Outlook(
            cluster=self.rules.name,
            epoch=self.view.epoch,
            view=asdict(self.view) if after_epoch == 0 or self._is_news(after_epoch) else None,
            snapshot=newest.note if newest else None,
            dataset=self._dataset,
            pins_version=self.pin_board.pins.version,
            replicas=self.rules.policy.replicas,
        )

    async def wait_for_news(self, after_epoch: int, after_snapshot: str, timeout_s: float) -> Outlook:
        """The outlook as soon as epoch or snapshot (by its tag) is another one, at the latest after `timeout_s`.

        A master that has just begun has none of them yet, and that is no other one.
        """
        await self._take(self.roster.follow(after_epoch, time.monotonic()))

        def is_news() -> bool:
            newest = self.shelf.newest
            return self._is_news(after_epoch) or (newest is not None and newest.tag != after_snapshot)

        await self.changes.wait_for(is_news, timeout_s)
        return self.outlook(after_epoch=after_epoch)

    async def drain(self, order: DrainOrder) -> None:
        """Orders a worker to hand its blocks over and to end, or to stay. Raises `ConfigError` and `BusyError`."""
        now_s = time.monotonic()
        await self._take(
            self.roster.stay(order.id, now_s) if order.cancel else self.roster.drain(order.id, now_s)
        )

    # --- data ---

    async def refresh(self) -> Refreshed:
        """Takes a new snapshot and tells everybody."""
        refreshed = await self.shelf.refresh()
        _log.info("master: snapshot %d: %d files", refreshed.version, refreshed.files)
        self._dataset = self.rules.dataset.model_copy(update={"origins": self._engine.origins()})
        await asyncio.to_thread(self._engine.set_view, self.view.to_json())
        await self.pin_board.resolve()
        self.changes.announce()
        self._resume_loads()
        await self._saver.try_to_save()
        return refreshed

    async def start_load(self, order: LoadOrder) -> LoadReport:
        """Starts a load; pins begin and end at once. Evicted paths are no longer pinned.

        A load that comes while the first list is on its way waits for it, and for the first view. Raises `BusyError`
        where a list cannot be had.
        """
        if self.shelf.has_tried and not self._engine.origins() and order.action is not LoadAction.UNPIN:
            raise BusyError.of(
                f"there is no snapshot yet: {self.shelf.refresh_error}",
                hint="order it again when `headrace status --cluster URL` shows one",
            )
        if order.action is not LoadAction.LOAD:
            self.pin_board.unpin(decode_paths(order.paths) or [b""])
        elif order.pin:
            self.pin_board.pin(order.paths or ("",))
        if order.pin or order.action is not LoadAction.LOAD:
            await self.pin_board.resolve()
        return await self.loads.start(order, at_once=self._may_load)

    # --- inside ---

    def _is_news(self, known_epoch: int) -> bool:
        return self.roster.is_news(self.view, known_epoch, time.monotonic())

    @property
    def _may_load(self) -> bool:
        """Not before workers are known, or a load would find that nothing fits, and an eviction that all is done.

        Where none comes while they are given the time to, loads begin nevertheless, and say so.
        """
        knows_workers = self.view.epoch > 0 or not self.roster.learns_for_s(time.monotonic())
        return knows_workers and self.shelf.has_tried and bool(self._engine.origins())

    def _resume_loads(self) -> None:
        if self._may_load:
            self.loads.resume()

    async def _take(self, outcome: Outcome) -> None:
        """Does what a step of the membership leads to: tells people, saves, and only then hands the new view out."""
        for notice in outcome.notices:
            level = logging.WARNING if notice.level is Level.WARNING else logging.INFO
            _log.log(level, "master: %s", notice.text)
        if outcome.save:
            await self._saver.try_to_save()
        view, before = outcome.view, self.view.epoch
        if view is None or view.epoch <= before:
            return
        self.view = view
        _log.info("master: epoch %d: %d workers", view.epoch, len(view.members))
        self.changes.announce()
        await asyncio.to_thread(self._engine.set_view, view.to_json())
        if before == 0:
            self._resume_loads()

    def _check_dataset(self, beat: Heartbeat) -> None:
        if beat.dataset and beat.dataset != self.rules.dataset.fingerprint:
            raise ConfigError.of(
                f"worker '{beat.id}' has other origins than the master of cluster '{self.rules.name}'",
                hint="give it the same `origins` (path, address, endpoint) as the master's",
            )

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            await self._take(self.roster.tick(now_s))
            self.mounts.tick(now_s)
            if self.view.epoch == 0:
                self._resume_loads()

    async def _refresh_forever(self) -> None:
        # Also where the last snapshot is to do: the engine knows its origins only once it has begun.
        await self._refresh_until_there()
        while self.rules.refresh_interval_s > 0:
            await asyncio.sleep(self.rules.refresh_interval_s)
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
            self._go_on_with_the_last()
            return False
        return True

    def _go_on_with_the_last(self) -> None:
        """Without a word of an earlier master, a snapshot that is there is of the origins of today: a restored one."""
        if self.shelf.newest is not None and not self._dataset.origins:
            self._dataset = self.rules.dataset.model_copy(update={"origins": self._engine.origins()})
            self.changes.announce()

    def _dump(self) -> dict[str, Any]:
        return {
            "cluster": self.rules.name,
            "membership": self.roster.dump(),
            "origins": [list(each) for each in self._dataset.origins],
            "pins": list(self.pin_board.paths),
            "loads": self.loads.dump(),
        }

    async def _restore(self, state: dict[str, Any]) -> None:
        self._dataset = self.rules.dataset.model_copy(
            update={"origins": tuple((path, name) for path, name in state.get("origins", ()))}
        )
        self.pin_board.restore(state.get("pins", ()))
        self.loads.restore(state.get("loads", ()))
        if text := state.get("membership"):
            try:
                outcome = self.roster.restore(text, time.monotonic())
            except HeadraceError as error:
                _log.error("master: the saved members are not used: %s", error)
                return
            await self._take(outcome)

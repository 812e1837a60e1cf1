"""Brings jobs a step further, each at a time: reads what is written down, looks, decides, writes that down, does it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from headrace.attention import Attention, NextLook
from headrace.errors import HeadraceError
from headrace.local.folders import remove_tree
from headrace.local.reconcile.candidates import Candidates
from headrace.local.reconcile.masters import Masters
from headrace.local.reconcile.places import Addresses
from headrace.local.roles import TRAINING_PREFIX, RoleRecord
from headrace.local.training.data import JobData
from headrace.local.training.deciding import Decision, decide
from headrace.local.training.metering import Metering
from headrace.local.training.notes import JobNotes
from headrace.local.training.records import JobRecord, Stage, role_prefix
from headrace.local.training.seeing import Eyes
from headrace.local.training.taking import Hands
from headrace.local.training.volumes import datasets_of
from headrace.local.world import World

_log = logging.getLogger("headrace.local")

_READ_EVERY_S = 5.0
# Workers tell their master what they fetched every two seconds.
_SETTLED_S = 3.0
_JOB = "job"
_COUNTED = (Stage.STARTING, Stage.RUNNING, Stage.CLOSING)


class TrainingRunner:
    """All jobs of one backend. Used from one event loop."""

    def __init__(self, world: World, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.notes = JobNotes(world.database, world.places)
        masters = Masters(world.places, Addresses(world.database), world.roles)
        self.data = JobData(world, Candidates(world, masters))
        self.hands = Hands(world, self.notes, self.data, self.look_at)
        self._world = world
        self._clock = clock
        self._eyes = Eyes(world, self.data)
        self._metering = Metering(world, masters)
        self._attention = Attention(self, _log)
        self._locks: dict[str, asyncio.Lock] = {}
        self._faults: dict[str, str] = {}
        self._read_at: dict[str, datetime] = {}

    def begin(self) -> None:
        """Takes over what another supervisor left. Blocks for as long as reading the jobs takes."""
        for folder in self.notes.strays():
            remove_tree(folder)
        known = {record.uid for record in self.notes.all()}
        prefixes = tuple(role_prefix(uid) for uid in known)
        for use in self._world.uses.all():
            if use.id.startswith(TRAINING_PREFIX) and not use.id.startswith(prefixes):
                self._world.uses.end(use.id)
        for record in self._world.roles.all():
            is_ours = record.order.id.startswith(TRAINING_PREFIX) and not record.order.id.startswith(prefixes)
            if is_ours and record.state == "ended":
                self._world.roles.forget(record.order.id)
        self._attention.look_at([(_JOB, uid) for uid in sorted(known)])

    def look_at(self, uid: str) -> None:
        """Has a job looked at now."""
        self._attention.look_at([(_JOB, uid)])

    def role_ended(self, record: RoleRecord) -> None:
        """The process of an instance has ended."""
        for job in self.notes.all():
            if record.order.id.startswith(role_prefix(job.uid)):
                self.look_at(job.uid)

    async def change(self, uid: str, change: Callable[[JobRecord], JobRecord]) -> JobRecord | None:
        """Changes a job between looks, and has it looked at; `None` when it is gone. On the disk when it returns."""
        async with self._lock(uid):
            record = self.notes.find(uid)
            if record is None:
                return None
            changed = change(record)
            if changed != record:
                self.notes.write(changed)
        self.look_at(uid)
        return changed

    async def end(self) -> None:
        """Looks no more; jobs go on."""
        await self._attention.close()

    async def close(self) -> None:
        """Called when there are no more looks."""
        await self.hands.close()

    async def reconcile(self, namespace: str, name: str) -> NextLook:  # noqa: ARG002
        """One look at the job of an identity."""
        async with self._lock(name):
            record = self.notes.find(name)
            if record is None:
                self._drop(name)
                return NextLook()
            return await self._look(record)

    async def _look(self, record: JobRecord) -> NextLook:
        now = self._clock()
        others = [each for each in self.notes.all() if each.uid != record.uid and not each.stage.has_ended]
        seen = await self._eyes.look(record, self._faults.pop(record.uid, ""), others)
        decision = decide(record, seen, now)
        metered = await self._metered(record, decision.record, now)
        decision = Decision(metered, decision.steps, decision.look_s)
        if decision.record != record:
            self.notes.write(decision.record)
        try:
            await self.hands.take(decision.record, decision.steps)
        except HeadraceError as error:
            _log.warning("%s/%s: %s", record.spec.kind.value, record.title, error.message)
            self._faults[record.uid] = error.message
            return NextLook(0.0)
        return NextLook(self._next_s(decision))

    def _next_s(self, decision: Decision) -> float | None:
        record = decision.record
        waits = record.stage is Stage.ENDED and not record.is_metered and not record.is_leaving
        if waits and record.spec.data:
            return min(decision.look_s if decision.look_s is not None else _SETTLED_S, _SETTLED_S)
        return decision.look_s

    async def _metered(self, before: JobRecord, after: JobRecord, now: datetime) -> JobRecord:
        """The record with what its data has cost so far, when it is time for another reading."""
        if after.is_metered or not after.spec.data or after.is_leaving:
            return after
        is_settled = (
            after.ended is not None
            and before.stage is Stage.ENDED
            and ((now - after.ended).total_seconds() >= _SETTLED_S)
        )
        has_just_ended = after.stage is Stage.RELEASING and before.stage is not Stage.RELEASING
        has_just_begun = after.stage is Stage.STARTING and not after.meter.last
        is_due = after.stage in _COUNTED and self._is_due(after.uid, now)
        if not (is_settled or has_just_ended or has_just_begun or is_due):
            return after
        self._read_at[after.uid] = now
        keys = datasets_of(await self.data.volumes(after.spec))
        nodes = [each for each in self._world.nodes.all() if each.name in after.nodes]
        own = self.hands.uses_of(after.uid)
        meter = await self._metering.read(after.meter, keys, nodes, after.created, own)
        return after.changed(meter=meter, is_metered=is_settled)

    def _is_due(self, uid: str, now: datetime) -> bool:
        last = self._read_at.get(uid)
        return last is None or (now - last).total_seconds() >= _READ_EVERY_S

    def _lock(self, uid: str) -> asyncio.Lock:
        return self._locks.setdefault(uid, asyncio.Lock())

    def _drop(self, uid: str) -> None:
        self._locks.pop(uid, None)
        self._faults.pop(uid, None)
        self._read_at.pop(uid, None)

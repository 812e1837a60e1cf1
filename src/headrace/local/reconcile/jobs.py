"""The work for all operations: which kind of work an order is, and what is under way here.

What was ordered is written down by the operation's identity, so that the next supervisor goes on with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from headrace.errors import HeadraceError
from headrace.local.reconcile.candidates import Candidates
from headrace.local.reconcile.masters import Masters
from headrace.local.reconcile.relations import OPERATIONS
from headrace.local.reconcile.work.backups import BackupWork
from headrace.local.reconcile.work.copies import CopyWork
from headrace.local.reconcile.work.desk import Note, Notes, Task, Work, moment
from headrace.local.reconcile.work.following import Follower
from headrace.local.reconcile.work.loads import LoadWork
from headrace.local.reconcile.work.processes import ProcessWork
from headrace.local.store import Selection
from headrace.local.world import World
from headrace.operations.loads import Loads
from headrace.plan.operation_scene import JobFacts, JobState
from headrace.plan.orders import BackupJob, CopyJob, Job, LoadJob, ProcessJob

_log = logging.getLogger("headrace.local")

_KINDS: Mapping[type[Job], str] = {
    LoadJob: "load",
    BackupJob: "backup",
    CopyJob: "copy",
    ProcessJob: "process",
}


class Jobs:
    """The work for all operations. Used from one event loop."""

    def __init__(self, world: World, masters: Masters) -> None:
        self._notes = Notes(world.database)
        self._starting: dict[str, asyncio.Task[None]] = {}
        follower = Follower(world)
        operations, _ = world.store.select(Selection(OPERATIONS))
        follower.tidy(operations)
        self._works: Mapping[str, Work[Any]] = {
            "load": LoadWork(Loads(masters)),
            "backup": BackupWork(masters),
            "copy": CopyWork(world, masters),
            "process": ProcessWork(world, self._notes, Candidates(world, masters), follower),
        }

    async def facts(self, uid: str) -> JobFacts | None:
        """How far the work for an operation is; `None` when there is none, or it was lost."""
        note = self._notes.find(uid)
        if note is None:
            return None
        if note.fault:
            return note.facts(JobState.FAILED, message=note.fault, exit_code=note.details.get("exit_code"))
        if uid in self._starting:
            return note.facts(JobState.STARTING)
        return await self._works[note.kind].facts(uid, note)

    def start(self, task: Task, job: Job) -> None:
        """Orders the work of a run."""
        uid = task.record.uid
        if uid in self._starting:
            return
        note = Note(_KINDS[type(job)], task.run, moment())
        self._notes.write(uid, note)
        begun = asyncio.create_task(self._begin(task, job, note))
        self._starting[uid] = begun
        begun.add_done_callback(lambda _: self._starting.pop(uid, None))

    async def cancel(self, uid: str) -> None:
        """Stops the work."""
        begun = self._starting.get(uid)
        if begun is not None:
            begun.cancel()
            await asyncio.gather(begun, return_exceptions=True)
        note = self._notes.find(uid)
        if note is not None and await self._works[note.kind].cancel(uid, note):
            await self.forget(uid)

    async def forget(self, uid: str) -> None:
        """The operation is gone."""
        note = self._notes.find(uid)
        if note is not None:
            await self._works[note.kind].forget(uid, note)
            self._notes.strike(uid)

    async def close(self) -> None:
        """Ends what is under way here; what was ordered from others goes on."""
        tasks = list(self._starting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin(self, task: Task, job: Job, note: Note) -> None:
        try:
            begun = await self._works[note.kind].begin(task, job, note)
        except HeadraceError as error:
            begun = self._present(task, note).failed(error.message)
        except Exception:
            _log.exception("operation/%s: cannot begin", task.record.reference.name)
            begun = self._present(task, note).failed("Headrace met a fault of its own; its log says which")
        self._notes.write(task.record.uid, begun)

    def _present(self, task: Task, note: Note) -> Note:
        """The note with what was written down meanwhile."""
        return self._notes.find(task.record.uid) or note

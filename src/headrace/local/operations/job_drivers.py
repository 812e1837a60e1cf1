"""The work for all operations: which kind of work an order is, and what is under way here.

Orders are written down by the operation's identity, so that the next supervisor goes on with them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from headrace.api.kinds import OPERATIONS
from headrace.errors import HeadraceError
from headrace.local.context import BackendContext
from headrace.local.datasets.candidates import Candidates
from headrace.local.datasets.masters import Masters
from headrace.local.operations.backup_driver import BackupDriver
from headrace.local.operations.copy_driver import CopyDriver
from headrace.local.operations.job_driver import JobDriver, Note, RunNotes, Task, moment
from headrace.local.operations.job_processes import JobProcesses
from headrace.local.operations.process_driver import ProcessDriver
from headrace.local.store.object_store import Selection
from headrace.operations.load_driver import LoadDriver
from headrace.operations.run_notes import WORK
from headrace.plan.job_specs import Job
from headrace.plan.operation_inputs import JobFacts, JobState

_log = logging.getLogger("headrace.local")


class JobDrivers:
    """The work for all operations. Used from one event loop."""

    def __init__(self, context: BackendContext, masters: Masters) -> None:
        self._notes = RunNotes(context.database)
        self._starting: dict[str, asyncio.Task[None]] = {}
        follower = JobProcesses(context)
        operations, _ = context.store.select(Selection(OPERATIONS))
        follower.tidy(operations)
        self._drivers: Mapping[str, JobDriver[Any]] = {
            "load": LoadDriver(masters),
            "backup": BackupDriver(masters),
            "copy": CopyDriver(context, masters),
            "process": ProcessDriver(context, self._notes, Candidates(context, masters), follower),
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
        return await self._drivers[note.kind].facts(uid, note)

    def start(self, task: Task, job: Job) -> None:
        """Orders the work of a run."""
        uid = task.record.uid
        if uid in self._starting:
            return
        note = Note(WORK[type(job)], task.run, moment())
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
        if note is not None and await self._drivers[note.kind].cancel(uid, note):
            await self.forget(uid)

    async def forget(self, uid: str) -> None:
        """The operation is gone."""
        note = self._notes.find(uid)
        if note is not None:
            await self._drivers[note.kind].forget(uid, note)
            self._notes.strike(uid)

    async def close(self) -> None:
        """Ends what is under way here; what was ordered from others goes on."""
        tasks = list(self._starting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin(self, task: Task, job: Job, note: Note) -> None:
        try:
            begun = await self._drivers[note.kind].begin(task, job, note)
        except HeadraceError as error:
            begun = self._present(task, note).failed(error.message)
        except Exception:
            _log.exception("operation/%s: cannot begin", task.record.reference.name)
            begun = self._present(task, note).failed("Headrace met a fault of its own; its log says which")
        self._notes.write(task.record.uid, begun)

    def _present(self, task: Task, note: Note) -> Note:
        """The note with what was written down meanwhile."""
        return self._notes.find(task.record.uid) or note

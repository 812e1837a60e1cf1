"""The drivers of each kind of work for operations on this machine."""

from __future__ import annotations

import logging

from headrace.api.kinds import OPERATIONS
from headrace.local.context import BackendContext
from headrace.local.datasets.candidates import Candidates
from headrace.local.datasets.masters import Masters
from headrace.local.operations.backup_driver import BackupDriver
from headrace.local.operations.copy_driver import CopyDriver
from headrace.local.operations.job_driver import RunNotes, Task
from headrace.local.operations.job_processes import JobProcesses
from headrace.local.operations.process_driver import ProcessDriver
from headrace.local.store.object_store import Selection
from headrace.operations.load_driver import LoadDriver
from headrace.operations.work import Work

_log = logging.getLogger("headrace.local")


def work_of(context: BackendContext, masters: Masters) -> Work[Task]:
    """The work for all operations; what was left of those that are gone is struck. Blocks."""
    notes, follower = RunNotes(context.database), JobProcesses(context)
    operations, _ = context.store.select(Selection(OPERATIONS))
    follower.tidy(operations)
    return Work(
        {
            "load": LoadDriver(masters),
            "backup": BackupDriver(masters),
            "copy": CopyDriver(context, masters),
            "process": ProcessDriver(context, notes, Candidates(context, masters), follower),
        },
        notes,
        _log,
    )

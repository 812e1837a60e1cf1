"""The facts of one operation, and its next status: the values that its planning passes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headrace.api.ignored import IgnoredField
from headrace.api.kinds import Operation
from headrace.api.operations import OperationPhase, OperationStatus
from headrace.plan.job_specs import Job, OperationContext
from headrace.plan.reasons import Wait

ENDED = {OperationPhase.COMPLETE, OperationPhase.FAILED}


class JobState(StrEnum):
    """The state of an operation's work."""

    STARTING = "starting"
    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Trouble:
    """The trouble that keeps work from going on that is not given up: since when, if that is known."""

    waiting: Wait
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The work that a backend does for one run of an operation. `faults` are files that went wrong; `exit_code` is that
    of a program which has ended.
    """

    run: str
    state: JobState
    started_at: datetime
    ended_at: datetime | None = None
    done_bytes: int = 0
    total_bytes: int = 0
    done_files: int = 0
    total_files: int = 0
    did_not_fit_bytes: int = 0
    faults: int = 0
    message: str = ""
    node: str | None = None
    bytes_per_second: float | None = None
    left_s: float | None = None
    exit_code: int | None = None
    trouble: Trouble | None = None

    @property
    def is_whole(self) -> bool:
        """True when all that was asked for is there, as far as somebody counted."""
        whole = self.done_bytes >= self.total_bytes and self.done_files >= self.total_files
        return whole and not self.faults and not self.did_not_fit_bytes


def running_operations(operations: Iterable[Operation]) -> dict[str, tuple[str, ...]]:
    """The names of those that run now, by kind."""
    found: dict[str, tuple[str, ...]] = {}
    for each in operations:
        if (each.status or OperationStatus()).phase is OperationPhase.EXECUTING:
            found[each.kind] = (*found.get(each.kind, ()), each.name)
    return found


@dataclass(frozen=True, slots=True)
class OperationInputs:
    """An operation with its last status, what it refers to, what it runs after, and what is done for it.

    `ignored` are fields without effect on this backend alone; `hindrance` is why the backend could not begin just now;
    `predecessor_fault` is why the one that it runs after makes no sense, where there is one that does not.
    """

    operation: Operation
    context: OperationContext
    predecessor: Operation | None = None
    job: JobFacts | None = None
    ignored: tuple[IgnoredField, ...] = ()
    hindrance: str = ""
    predecessor_fault: str = ""

    @property
    def before(self) -> OperationStatus:
        """The previous status."""
        return self.operation.status or OperationStatus()


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The next status of one run: what it waits for, why it failed, what is to be ordered for it."""

    phase: OperationPhase
    run: str
    waiting: Wait | None = None
    failed: Wait | None = None
    scheduled: datetime | None = None
    start: Job | None = None
    job: JobFacts | None = None

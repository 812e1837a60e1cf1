"""Notes on the work for one run of an operation, so that the next process can go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from headrace.api.times import format_time, parse_time
from headrace.plan.job_specs import BackupJob, CopyJob, Job, LoadJob, ProcessJob
from headrace.plan.operation_inputs import JobFacts, JobState

WORK: Mapping[type[Job], str] = {
    LoadJob: "load",
    BackupJob: "backup",
    CopyJob: "copy",
    ProcessJob: "process",
}
"""How each kind of work is called in a note."""


@dataclass(frozen=True, slots=True)
class Note:
    """The note on the work for one run. `details` are the kind's own, in JSON's types, without secrets."""

    kind: str
    run: str
    started: str
    ended: str = ""
    fault: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def started_at(self) -> datetime:
        """The time of the order."""
        return parse_time(self.started)

    @property
    def is_sound(self) -> bool:
        """True for one that we may have written. Raises `ValueError` for a time that is none."""
        words = (self.kind, self.run, self.started, self.ended, self.fault)
        if not all(isinstance(each, str) for each in words) or not isinstance(self.details, dict):
            return False
        return all(parse_time(each) for each in (self.started, self.ended or self.started))

    def failed(self, message: str) -> Note:
        """The same work after a fault that ended it."""
        return replace(self, fault=message, ended=moment())

    def with_details(self, **details: Any) -> Note:
        """The same work with more to be known of it."""
        return replace(self, details={**self.details, **details})

    def facts(self, state: JobState, **more: Any) -> JobFacts:
        """How far the run is."""
        ended = parse_time(self.ended) if self.ended else None
        return JobFacts(self.run, state, self.started_at, **{"ended_at": ended, **more})


def moment() -> str:
    """Now, as it is written down."""
    return format_time(datetime.now(UTC).replace(microsecond=0))

"""The facts of a copy, from the report of the process that copies. For both backends."""

from __future__ import annotations

from typing import Any

from headrace.operations.run_notes import Note
from headrace.plan.operation_inputs import JobFacts, JobState
from headrace.roles.processes.progress import CopyProgress


def facts_of_ended(note: Note, progress: CopyProgress, node: str | None = None) -> JobFacts:
    """The facts by its last report. One that counted its files has its faults among them, and is judged by these."""
    could_begin = progress.state == "done" or progress.total_files > 0
    return note.facts(
        JobState.COMPLETE if could_begin and progress.state != "cancelled" else JobState.FAILED,
        ended_at=progress.ended_at,
        message=progress.message,
        node=node,
        # A report names the first of them alone.
        faults=max(progress.faults, len(progress.errors)),
        **_counts(progress),
    )


def facts_of_running(progress: CopyProgress) -> dict[str, Any]:
    """The facts of a copy under way, beside its state."""
    return {
        "bytes_per_second": progress.bytes_per_second,
        "left_s": progress.left_s,
        "faults": max(progress.faults, len(progress.errors)),
        **_counts(progress),
    }


def _counts(progress: CopyProgress) -> dict[str, int]:
    return {
        "done_bytes": progress.done_bytes,
        "total_bytes": progress.total_bytes,
        "done_files": progress.done_files,
        "total_files": progress.total_files,
    }

"""What a copy's last word means for its operation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.local.operations.copy_driver import facts_of
from headrace.local.operations.job_driver import Note
from headrace.plan.operation_inputs import JobState
from headrace.roles.processes.progress import CopyProgress

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOTE = Note("copy", "once", "2026-01-01T00:00:00Z")


def progress(**fields: Any) -> CopyProgress:
    return CopyProgress(started_at=NOW, **fields)


@pytest.mark.parametrize(
    ("said", "state", "is_whole"),
    [
        (progress(state="done", done_files=2, total_files=2), JobState.COMPLETE, True),
        (progress(state="done"), JobState.COMPLETE, True),
        (
            progress(state="failed", done_files=1, total_files=2, errors=("a: gone",)),
            JobState.COMPLETE,
            False,
        ),
        (progress(state="failed", message="no bucket"), JobState.FAILED, True),
        (progress(state="cancelled", done_files=1, total_files=2), JobState.FAILED, False),
        (progress(done_files=1, total_files=2, bytes_per_second=3.0, left_s=9.0), JobState.RUNNING, False),
    ],
)
def test_a_word_becomes_a_state(said: CopyProgress, state: JobState, is_whole: bool) -> None:
    facts = facts_of(NOTE, said)
    assert (facts.state, facts.is_whole, facts.message) == (state, is_whole, said.message)


def test_only_a_copy_under_way_has_a_rate() -> None:
    running = facts_of(NOTE, progress(bytes_per_second=3.0, left_s=9.0))
    assert (running.bytes_per_second, running.left_s) == (3.0, 9.0)
    ended = facts_of(NOTE, progress(state="done", bytes_per_second=3.0))
    assert (ended.bytes_per_second, ended.left_s) == (None, None)


def test_a_copy_that_has_not_said_a_word_is_starting() -> None:
    assert facts_of(NOTE, None).state is JobState.STARTING

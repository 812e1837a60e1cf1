"""When the next mount process starts, and when there is none."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from headrace.roles.supervision import blame
from headrace.roles.supervision.blame import oom_kills, was_killed
from headrace.roles.supervision.restarts import Restarts

FAULT, KILL = False, True
NEVER = None
WELL_S, QUICKLY_S = 60.0, 0.5


@pytest.mark.parametrize(
    ("ends", "pauses"),
    [
        pytest.param([(NEVER, FAULT)] * 5, [0, 0.2, 1, 3, None], id="five faults in a row: given up"),
        pytest.param(
            [(QUICKLY_S, FAULT)] * 5, [0, 0.2, 1, 3, None], id="so are five that served for a moment"
        ),
        pytest.param([(WELL_S, FAULT)] * 9, [0] * 9, id="faults now and then: for ever"),
        pytest.param([(NEVER, KILL)] * 10, [0, 0.2, *[1] * 8], id="kills in a row: for ever, with pauses"),
        pytest.param([(QUICKLY_S, KILL)] * 10, [0, 0.2, *[1] * 8], id="the same a moment after it served"),
        pytest.param(
            [*[(NEVER, KILL)] * 6, (WELL_S, KILL), (NEVER, KILL), (NEVER, KILL)],
            [0, 0.2, 1, 1, 1, 1, 0, 0, 0.2],
            id="who was well for a while begins anew",
        ),
        pytest.param(
            [*[(NEVER, FAULT)] * 4, (WELL_S, KILL), *[(NEVER, FAULT)] * 5],
            [0, 0.2, 1, 3, 0, 0, 0.2, 1, 3, None],
            id="and so do faults",
        ),
        pytest.param(
            [*[(NEVER, FAULT), (NEVER, KILL)] * 3, (NEVER, FAULT), (NEVER, FAULT)],
            [0, 0, 0.2, 0.2, 1, 1, 3, None],
            id="kills between them forgive no fault",
        ),
    ],
)
def test_pauses(ends: list[tuple[float | None, bool]], pauses: list[float | None]) -> None:
    restarts = Restarts()
    assert [restarts.note_end(served_s, killed=killed) for served_s, killed in ends] == pauses
    assert restarts.count == sum(pause is not None for pause in pauses)


def test_a_replacement_that_was_wished_for_begins_anew() -> None:
    restarts = Restarts(quick_in_a_row=4, killed_in_a_row=4)
    restarts.note_replacement()
    assert restarts == Restarts(count=1)


@pytest.mark.parametrize(
    ("code", "killed"),
    [
        (0, False),
        (3, False),
        (-signal.SIGKILL, True),
        (-signal.SIGTERM, True),
        (-signal.SIGSEGV, False),
        (-signal.SIGABRT, False),
        (-signal.SIGBUS, False),
    ],
)
def test_whose_fault_an_end_is(code: int, killed: bool) -> None:
    assert was_killed(code, oom_kills()) == killed


def test_who_is_killed_for_want_of_memory_has_itself_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vmstat = tmp_path / "vmstat"
    monkeypatch.setattr(blame, "_VMSTAT", vmstat)
    assert oom_kills() == 0, "where the kernel does not say"
    vmstat.write_text("nr_free_pages 7\noom_kill 41\ndrop_pagecache 0\n")
    before = oom_kills()
    assert before == 41
    assert was_killed(-signal.SIGKILL, before)
    vmstat.write_text("nr_free_pages 7\noom_kill 42\ndrop_pagecache 0\n")
    assert not was_killed(-signal.SIGKILL, before)
    assert was_killed(-signal.SIGTERM, before), "the kernel uses no other signal for that"

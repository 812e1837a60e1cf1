"""Where a role stands, why it failed, and when it is started anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.local.processes.role_processes import RoleKind, RoleOrder, RoleRecord
from headrace.local.reconcile.back_off import StartBackOff
from headrace.local.reconcile.role_states import ProbeResults, RoleStates, failed_start
from headrace.local.store.database import Database
from headrace.plan.observed import RoleState

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
STARTED = "2026-01-31T09:29:55Z"
MASTER = "http://198.18.0.1:8700"


def record(kind: RoleKind, **changes: Any) -> RoleRecord:
    role = "worker-0" if kind == "worker" else f"{kind}"
    order = RoleOrder(
        f"default.shop.{role}", "default", "shop", kind, "node-1", (), "/nowhere", f"a.b@{MASTER}"
    )
    return replace(RoleRecord(order, "running", 10, 1, STARTED, 1), **changes)


def status(**changes: Any) -> dict[str, Any]:
    row = {"id": "worker-0", "state": "active", "is_listed": True, "started_at_s": NOW.timestamp() - 4}
    return {"workers": [row | changes]}


def sight(**changes: Any) -> ProbeResults:
    return replace(ProbeResults(status(), frozenset({"node-1"}), {}, MASTER, NOW), **changes)


@pytest.mark.parametrize(
    ("made", "seen", "state"),
    [
        (record("master"), sight(), RoleState.READY),
        (record("master"), sight(status=None), RoleState.STARTING),
        (record("mount"), sight(), RoleState.READY),
        (record("mount"), sight(mounted=frozenset()), RoleState.STARTING),
        (record("worker"), sight(), RoleState.READY),
        (record("worker"), sight(status=status(state="draining")), RoleState.DRAINING),
        (record("worker"), sight(status={"workers": []}), RoleState.STARTING),
        (record("worker"), sight(status=status(state="dead", is_listed=False)), RoleState.STARTING),
        # The row of the process before this one.
        (record("worker"), sight(status=status(started_at_s=NOW.timestamp() - 60)), RoleState.STARTING),
        (record("worker", state="ended", exit_code=0), sight(), RoleState.ENDED),
        (record("worker", state="ended", exit_code=3), sight(), RoleState.FAILED),
        (record("mount", state="ended", exit_code=0), sight(), RoleState.FAILED),
        (record("master", state="ended", exit_code=None), sight(), RoleState.FAILED),
    ],
)
def test_where_a_role_stands(made: RoleRecord, seen: ProbeResults, state: RoleState) -> None:
    assert RoleStates().facts_of(made, "worker-0", seen).state is state


def test_a_worker_stays_ready_while_its_master_is_away() -> None:
    role_states = RoleStates()
    assert role_states.facts_of(record("worker"), "worker-0", sight()).state is RoleState.READY
    away = role_states.facts_of(record("worker"), "worker-0", sight(status=None))
    assert (away.state, away.since) == (RoleState.READY, NOW)


LONG_AGO = "2026-01-31T09:00:00Z"


@pytest.mark.parametrize(
    ("made", "seen", "serves"),
    [
        # A master that has just begun has heard of it, and lists nobody yet.
        (record("worker"), sight(status=status(is_listed=False)), True),
        (record("worker", since=LONG_AGO), sight(status={"workers": []}), True),
        (record("worker"), sight(status={"workers": []}), False),
        (record("worker"), sight(status=None), False),
        (record("worker", state="ended", exit_code=3, since=LONG_AGO), sight(), False),
    ],
)
def test_a_worker_serves_before_a_new_master_lists_it(
    made: RoleRecord, seen: ProbeResults, serves: bool
) -> None:
    assert RoleStates().facts_of(made, "worker-0", seen).serves is serves


def test_a_role_keeps_the_time_at_which_it_came_to_stand_so() -> None:
    role_states, later = RoleStates(), NOW + timedelta(minutes=5)
    role_states.facts_of(record("worker"), "worker-0", sight())
    assert role_states.facts_of(record("worker"), "worker-0", sight(now=later)).since == NOW


def test_a_role_that_was_told_another_masters_address_is_old() -> None:
    here = RoleStates().facts_of(record("worker"), "worker-0", sight())
    moved = RoleStates().facts_of(record("worker"), "worker-0", sight(master="http://198.18.0.2:8700"))
    assert (here.version, moved.version) == ("a.b", "a.b*")


def test_each_end_is_counted_once_and_makes_the_pause_longer(database: Database) -> None:
    troubles = StartBackOff(database)
    first = record("mount", state="ended", exit_code=7)
    for _ in range(3):
        troubles.note_end(first, NOW)
    once = troubles.left_s("default.shop.mount", NOW)
    troubles.note_end(replace(first, starts=2), NOW)
    assert troubles.left_s("default.shop.mount", NOW) > once > 0
    assert troubles.left_s("default.shop.mount", NOW + timedelta(minutes=2)) == 0


def test_pauses_stay_long_when_the_supervisor_starts_anew(database: Database) -> None:
    ends = [replace(record("mount", state="ended", exit_code=7), starts=number) for number in range(1, 6)]
    troubles = StartBackOff(database)
    for each in ends:
        troubles.note_end(each, NOW)
    slow, why = troubles.left_s("default.shop.mount", NOW), troubles.find("default.shop.mount")
    assert slow == 8
    again = StartBackOff(database)
    assert (again.left_s("default.shop.mount", NOW), again.find("default.shop.mount")) == (slow, why)
    again.note_end(ends[-1], NOW)
    assert again.left_s("default.shop.mount", NOW) == slow
    again.note_end(replace(ends[-1], starts=6), NOW)
    assert again.left_s("default.shop.mount", NOW) == 16


def test_a_role_that_is_well_or_gone_leaves_no_note(database: Database) -> None:
    troubles = StartBackOff(database)
    troubles.note_end(record("mount", state="ended", exit_code=7), NOW)
    troubles.forget("default.shop.mount")
    assert StartBackOff(database).find("default.shop.mount") is None
    assert database.notes("failures:") == {}


def test_the_last_complaint_of_its_log_says_why_a_role_ended(database: Database, tmp_path: Path) -> None:
    log = tmp_path / "role.log"
    log.write_text("error: an old one\nserving\nerror: the bucket is not there\nhint: make it\n")
    made = record("worker", state="ended", exit_code=4)
    troubles = StartBackOff(database)
    troubles.note_end(replace(made, order=replace(made.order, log_file=str(log))), NOW)
    trouble = troubles.find("default.shop.worker-0")
    assert trouble is not None
    assert (trouble.kind, trouble.message) == ("NotFound", "the bucket is not there")


@pytest.mark.parametrize(
    ("code", "log", "said"),
    [
        (1, "serving\nKeyError: 'workers'\n", "it ended with exit code 1: KeyError: 'workers'"),
        (1, "", "it ended with exit code 1"),
        (-9, "serving\n", "it was ended by signal 9"),
    ],
)
def test_without_a_complaint_the_last_line_is_told_of_what_ended_by_itself(
    database: Database, tmp_path: Path, code: int, log: str, said: str
) -> None:
    (tmp_path / "role.log").write_text(log)
    made = record("master", state="ended", exit_code=code)
    troubles = StartBackOff(database)
    troubles.note_end(replace(made, order=replace(made.order, log_file=str(tmp_path / "role.log"))), NOW)
    trouble = troubles.find(made.order.id)
    assert trouble is not None
    assert trouble.message == said


def test_a_role_that_ended_several_times_says_why_also_while_it_starts(database: Database) -> None:
    troubles, began = StartBackOff(database), record("master", state="running")
    for starts in (1, 2):
        troubles.note_end(record("master", state="ended", exit_code=3, starts=starts), NOW)
        failure = troubles.find(began.order.id)
        assert failure is not None
        assert failure.times == starts
        seen = ProbeResults(None, frozenset(), {"master": failure}, None, NOW)
        facts = RoleStates().facts_of(began, "master", seen)
        assert facts.state is RoleState.STARTING
        assert bool(facts.message) == (starts > 1)
    assert "times" not in str(database.notes("failures:"))


def test_a_role_that_never_came_to_run_is_seen_as_failed(database: Database) -> None:
    troubles = StartBackOff(database)
    error = ConfigError.of("the folder /data is not empty")
    troubles.note_start("default.shop.worker-0", error, "a.b", "node-1", NOW)
    ((order_id, trouble),) = troubles.of_dataset("default.shop.")
    facts = failed_start("worker-0", trouble)
    assert order_id == "default.shop.worker-0"
    assert (facts.role, facts.node, facts.state, facts.version) == (
        "worker",
        "node-1",
        RoleState.FAILED,
        "a.b",
    )
    assert (facts.reason, facts.message) == ("Config", "the folder /data is not empty")

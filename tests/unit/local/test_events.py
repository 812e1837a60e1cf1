from __future__ import annotations

import pytest

from headrace.local.store import event_log
from headrace.local.store.event_log import EventLog
from headrace.local.store.records import Reference


@pytest.fixture
def record(store):
    with store.changing() as transaction:
        return transaction.create(Reference("Dataset", "default", "imagenet"), {"spec": {}})


def test_the_same_event_again_is_counted(database, clock, record) -> None:
    log = EventLog(database, clock)
    log.add(record, "Warning", "SecretMissing", "Secret keys is not there")
    clock.move(90)
    log.add(record, "Warning", "SecretMissing", "Secret keys is not there")
    log.add(record, "Normal", "Bound", "it is bound")
    again, bound = log.select()
    assert (again.count, (again.last - again.first).total_seconds()) == (2, 90)
    assert bound.count == 1
    assert log.select("other") == []
    assert log.select(None, record.reference) == [again, bound]


def test_old_events_make_room(database, clock, record, monkeypatch) -> None:
    monkeypatch.setattr(event_log, "KEPT", 3)
    log = EventLog(database, clock)
    for number in range(5):
        clock.move(1)
        log.add(record, "Normal", "Step", f"step {number}")
    assert [event.message for event in log.select()] == ["step 2", "step 3", "step 4"]


def test_a_long_message_is_cut(database, clock, record) -> None:
    log = EventLog(database, clock)
    log.add(record, "Normal", "Long", "x" * 5000)
    assert len(log.select()[0].message) == event_log.LONGEST_MESSAGE

"""The same event is written at most now and then, and counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace.operator.event_correlator import EventCorrelator

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def test_an_event_is_written_once_and_later_with_its_number_of_times() -> None:
    told = EventCorrelator()
    assert told.next("a", NOW) is not None
    assert told.next("a", NOW + timedelta(seconds=2)) is None
    again = told.next("a", NOW + timedelta(minutes=2))
    assert again is not None
    assert (again.first, again.count) == (NOW, 2)
    assert told.next("b", NOW) is not None


def test_old_events_are_forgotten() -> None:
    told = EventCorrelator()
    for number in range(5000):
        told.next(str(number), NOW)
    assert len(told._times) == 2000

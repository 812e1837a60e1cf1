"""The times at which a schedule is due: the next moment after one, the last one up to another. In UTC, to the
minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

from headrace.api.schedules import Schedule

# Within 28 years each date falls on each weekday; a century without a leap day adds a few.
_FARTHEST_DAYS = 40 * 366


def next_due(schedule: Schedule, after: datetime) -> datetime | None:
    """The first moment after `after`; `None` if there is none in forty years."""
    start = after.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    for number in range(_FARTHEST_DAYS):
        day = start.date() + timedelta(days=number)
        least = start.time() if number == 0 else time.min
        for moment in _moments(schedule, day):
            if moment >= least:
                return datetime.combine(day, moment, UTC)
    return None


def last_due(schedule: Schedule, after: datetime, now: datetime) -> datetime | None:
    """The last moment up to `now` and later than `after`, if there is one: of what was missed, only this."""
    start = now.astimezone(UTC)
    for number in range(min((start - after.astimezone(UTC)).days + 2, _FARTHEST_DAYS)):
        day = start.date() - timedelta(days=number)
        for moment in reversed(list(_moments(schedule, day))):
            due = datetime.combine(day, moment, UTC)
            if due <= start:
                return due if due > after else None
    return None


def _moments(schedule: Schedule, day: date) -> Iterator[time]:
    # Schedules count weekdays from Sunday.
    if day.month in schedule.months and schedule.names_day(day.day, day.isoweekday() % 7):
        for hour in sorted(schedule.hours):
            for minute in sorted(schedule.minutes):
                yield time(hour, minute)

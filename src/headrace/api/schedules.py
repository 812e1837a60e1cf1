"""Cron schedules as Kubernetes has them: five fields, names of months and days, `@daily` and its like."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_PART = re.compile(r"(?P<first>\*|\?|\w+)(-(?P<last>\w+))?(/(?P<step>\d{1,4}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times at which something is due: each field as the set of its values. Weekdays count from Sunday, 0."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def names_day(self, day: int, weekday: int) -> bool:
        """True if the schedule names a day. With both days and weekdays given either is enough, as cron has it."""
        if self.any_day or self.any_weekday:
            return day in self.days and weekday in self.weekdays
        return day in self.days or weekday in self.weekdays


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    words: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _DAYS),
)


def parse_schedule(text: str) -> Schedule:
    """The schedule. Raises `ValueError` with the part that is wrong."""
    parts = _MACROS.get(text.strip().lower(), text).split()
    if len(parts) != len(_FIELDS):
        raise ValueError(
            f"'{text[:64]}' is not a schedule: five fields (minute hour day month weekday) or "
            f"{', '.join(_MACROS)}"
        )
    minutes, hours, days, months, weekdays = (
        _values(part, field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    return Schedule(minutes, hours, days, months, weekdays, _is_any(parts[2]), _is_any(parts[4]))


def _is_any(part: str) -> bool:
    return part[0] in "*?"


def _values(text: str, field: _Field) -> frozenset[int]:
    return frozenset(value for part in text.split(",") for value in _range(part, field))


def _range(part: str, field: _Field) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        raise _wrong(part, field)
    step = int(match["step"] or 1)
    if match["first"] in {"*", "?"}:
        first, last = field.least, field.most
    else:
        first = _number(match["first"], field)
        alone = field.most if match["step"] else first
        last = _number(match["last"], field) if match["last"] else alone
    if step == 0 or first > last or (match["first"] in {"*", "?"} and match["last"]):
        raise _wrong(part, field)
    return range(first, last + 1, step)


def _number(word: str, field: _Field) -> int:
    number = field.words.get(word.lower(), int(word) if word.isdecimal() else -1)
    if not field.least <= number <= field.most:
        raise _wrong(word, field)
    return number


def _wrong(part: str, field: _Field) -> ValueError:
    return ValueError(f"'{part[:32]}' is not a {field.name} of a schedule: {field.least} to {field.most}")


def _check(text: str) -> str:
    parse_schedule(text)
    return text


Cron = Annotated[str, Field(max_length=256), AfterValidator(_check)]
"""A schedule, as text."""

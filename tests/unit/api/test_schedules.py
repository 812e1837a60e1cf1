from __future__ import annotations

import pytest

from headrace.api.schedules import parse_schedule


def test_fields_become_sets() -> None:
    schedule = parse_schedule("*/20 0-6/3,22 1,15 jan-MAR mon")
    assert schedule.minutes == {0, 20, 40}
    assert schedule.hours == {0, 3, 6, 22}
    assert schedule.days == {1, 15}
    assert schedule.months == {1, 2, 3}
    assert schedule.weekdays == {1}


def test_day_and_weekday_together_mean_either() -> None:
    both, one = parse_schedule("0 0 13 * fri"), parse_schedule("0 0 * * fri")
    assert both.names_day(13, 0) and both.names_day(1, 5) and not both.names_day(1, 0)
    assert one.names_day(13, 5) and not one.names_day(13, 0)


@pytest.mark.parametrize("text", ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7",
                                  "*/0 * * * *", "5-1 * * * *", "a * * * *", "1,,2 * * * *", "*-5 * * * *", "@often",
                                  "TZ=UTC 0 0 * * *", "-1 * * * *", "1/ * * * *"])  # fmt: skip
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="schedule"):
        parse_schedule(text)

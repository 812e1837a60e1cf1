"""Values as Fluid and kubectl print them: sizes, percentages, durations, ages."""

from __future__ import annotations

from datetime import datetime, timedelta

CALCULATING = "[Calculating]"
UNFINISHED = "Unfinished"
RUN_AGAIN = "-"

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_bytes(size_bytes: int) -> str:
    """`143.67GiB`, `0.00B`: two digits, base 1024."""
    amount = float(size_bytes)
    unit = 0
    while round(amount, 2) >= 1024 and unit < len(_UNITS) - 1:
        amount /= 1024
        unit += 1
    return f"{amount:.2f}{_UNITS[unit]}"


def format_percentage(part: int, whole: int) -> str:
    """`52.4%`; rounded down, so that `100.0%` means all. Of nothing it is `0.0%`."""
    tenths = min(max(part, 0), whole) * 1000 // whole if whole > 0 else 0
    return f"{tenths // 10}.{tenths % 10}%"


def format_duration(duration: timedelta) -> str:
    """`3m12s`, `1h0m5s`, `0s`: as Go prints a duration rounded to seconds."""
    seconds = max(round(duration.total_seconds()), 0)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def format_age(since: datetime | None, now: datetime) -> str:
    """`5s`, `4m45s`, `52m`, `5h12m`, `3d`: as kubectl does."""
    if since is None:
        return "<unknown>"
    seconds = (now - since) // timedelta(seconds=1)
    if seconds < 0:
        # Clocks differ by a second or two.
        return "0s" if seconds >= -2 else "<invalid>"
    return _short(seconds)


def _short(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    steps = (
        (seconds < 120, seconds, "s", 0, ""),
        (minutes < 10, minutes, "m", seconds % 60, "s"),
        (minutes < 180, minutes, "m", 0, ""),
        (hours < 8, hours, "h", minutes % 60, "m"),
        (hours < 48, hours, "h", 0, ""),
        (hours < 192, days, "d", hours % 24, "h"),
        (hours < 24 * 365 * 2, days, "d", 0, ""),
        (hours < 24 * 365 * 8, days // 365, "y", days % 365, "d"),
        (True, days // 365, "y", 0, ""),
    )
    _, count, unit, rest, rest_unit = next(step for step in steps if step[0])
    return f"{count}{unit}{rest}{rest_unit}" if rest else f"{count}{unit}"

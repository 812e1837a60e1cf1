"""The beginning of a program of ours, before all else that it loads."""

from __future__ import annotations

from headrace.process import authorities
from headrace.process.garbage import collect_seldom


def begins() -> None:
    """Says that this process is a program of ours. For the packages that hold one: it is for the whole process."""
    collect_seldom()
    authorities.are_named_by_us()

"""Which measurements run on whom, in which cache state and order. One module for each group of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.session import Session
from benchmarks.suites import directories, epochs, link, listing, sdk, warm

Suite = Callable[[Session], None]

SUITES: Mapping[str, Suite] = {
    "warm": warm.run,
    "directories": directories.run,
    "listing": listing.run,
    "link": link.run,
    "epochs": epochs.run,
    "sdk": sdk.run,
}
SHARES: Mapping[str, float] = {
    "warm": 0.45,
    "directories": 0.25,
    "listing": 0.05,
    "link": 0.12,
    "epochs": 0.09,
    "sdk": 0.04,
}
"""Of the run's time."""
NEED_NO_DATA = frozenset({"directories"})
"""Suites that bring their own bucket."""

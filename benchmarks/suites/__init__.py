"""Which measurements run on whom, in which cache state and order. One module for each group of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.session import Session
from benchmarks.suites import cluster, directories, epochs, link, listing, sdk, warm

Suite = Callable[[Session], None]

SUITES: Mapping[str, Suite] = {
    "warm": warm.run,
    "directories": directories.run,
    "listing": listing.run,
    "link": link.run,
    "epochs": epochs.run,
    "sdk": sdk.run,
    "cluster": cluster.run,
}
SHARES: Mapping[str, float] = {
    "warm": 0.37,
    "directories": 0.21,
    "listing": 0.04,
    "link": 0.10,
    "epochs": 0.07,
    "sdk": 0.03,
    "cluster": 0.18,
}
"""Of the run's time."""
NEED_NO_DATA = frozenset({"directories", "cluster"})
"""Suites that bring their own bucket."""

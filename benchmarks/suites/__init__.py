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

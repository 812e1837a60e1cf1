"""Which measurements run on whom, in which cache state and order. One module for each group of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.session import Session
from benchmarks.suites import (
    cluster,
    datasets,
    directories,
    epochs,
    kubernetes,
    link,
    listing,
    many_files,
    sdk,
    warm,
)

Suite = Callable[[Session], None]

SUITES: Mapping[str, Suite] = {
    "warm": warm.run,
    "directories": directories.run,
    "listing": listing.run,
    "many-files": many_files.run,
    "link": link.run,
    "epochs": epochs.run,
    "sdk": sdk.run,
    "cluster": cluster.run,
    "datasets": datasets.run,
    "kubernetes": kubernetes.run,
}
SHARES: Mapping[str, float] = {
    "warm": 0.27,
    "directories": 0.16,
    "listing": 0.03,
    "many-files": 0.05,
    "link": 0.09,
    "epochs": 0.06,
    "sdk": 0.02,
    "cluster": 0.13,
    "datasets": 0.12,
    "kubernetes": 0.07,
}
"""Of the run's time."""
NEED_NO_DATA = frozenset({"directories", "many-files", "cluster", "datasets", "kubernetes"})
"""Suites that bring their own bucket."""

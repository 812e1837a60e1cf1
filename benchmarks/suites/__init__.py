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
    mixed,
    sdk,
    warm,
    weights,
    weights_of_nodes,
)

Suite = Callable[[Session], None]

SUITES: Mapping[str, Suite] = {
    "warm": warm.run,
    "mixed": mixed.run,
    "directories": directories.run,
    "listing": listing.run,
    "many-files": many_files.run,
    "link": link.run,
    "epochs": epochs.run,
    "sdk": sdk.run,
    "cluster": cluster.run,
    "weights": weights.run,
    "weights-nodes": weights_of_nodes.run,
    "datasets": datasets.run,
    "kubernetes": kubernetes.run,
}
SHARES: Mapping[str, float] = {
    "warm": 0.28,
    "mixed": 0.03,
    "directories": 0.11,
    "listing": 0.03,
    "many-files": 0.04,
    "link": 0.07,
    "epochs": 0.05,
    "sdk": 0.02,
    "cluster": 0.09,
    "weights": 0.09,
    "weights-nodes": 0.05,
    "datasets": 0.09,
    "kubernetes": 0.05,
}
"""Of the run's time."""
NEED_NO_DATA = frozenset(
    {"directories", "many-files", "cluster", "weights", "weights-nodes", "datasets", "kubernetes"}
)
"""Suites that bring their own bucket."""

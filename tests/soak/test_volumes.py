"""Volumes of a real Kubernetes outlive whatever serves them, in every way and in orders of chance.

Each way takes seconds. For hundreds of them run this file alone, so that all of the time is its own, and look on:
SOAK_MINUTES=60 python -m pytest --log-cli-level=info tests/soak/test_volumes.py
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest
from outliving import Holding
from tests.kubernetes.conftest import cluster, installed, kubernetes, release
from tests.kubernetes.test_outliving import holding

__all__ = ["cluster", "holding", "installed", "kubernetes", "release"]

_log = logging.getLogger(__name__)
pytestmark = pytest.mark.root


def test_open_files_and_maps_stay_right_again_and_again(
    holding: Holding, seed: int, rounds: Iterator[int]
) -> None:
    survived: Counter[str] = Counter()
    for number in rounds:
        for name in holding.shuffled_ways(seed + number):
            holding.ways()[name]()
            holding.read_on()
            survived[name] += len(holding.reading.pods)
            _log.info("round %s: programs that went on so far: %s", number, dict(survived))

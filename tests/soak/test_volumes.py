"""Volumes of a real Kubernetes outlive whatever serves them, in every way and in orders of chance.

Each way takes seconds. For each of them a hundred times run this file alone, and look on; in the end it says how often
which one was survived: SOAK_TIMES=100 python -m pytest --log-cli-level=info tests/soak/test_volumes.py
SOAK_WAYS="out of memory,deleted,driver upgraded" takes those only: a hundred of each in an hour instead of three.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from outliving import Holding
from tests.kubernetes.conftest import cluster, installed, kubernetes, release
from tests.kubernetes.test_outliving import holding

__all__ = ["cluster", "holding", "installed", "kubernetes", "release"]

_log = logging.getLogger(__name__)
_WAYS = [name.strip() for name in os.environ.get("SOAK_WAYS", "").split(",") if name.strip()]

pytestmark = pytest.mark.root


def test_open_files_and_maps_stay_right_again_and_again(
    holding: Holding, seed: int, rounds: Iterator[int], told: list[str]
) -> None:
    times: Counter[str] = Counter()
    spent_s: Counter[str] = Counter()
    try:
        for number in rounds:
            for name in holding.shuffled_ways(seed + number, _WAYS):
                began_s = time.monotonic()
                holding.ways()[name]()
                holding.read_on()
                times[name] += 1
                spent_s[name] += round(time.monotonic() - began_s)
                _log.info("round %s: survived so far: %s", number, dict(times))
    finally:
        told.append(f"survived by {len(holding.reading.pods)} programs, on as many nodes:")
        told += [
            f"  {name}: {count} times, {spent_s[name] / count:.0f} s each" for name, count in times.items()
        ]

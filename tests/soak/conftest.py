"""`make soak`: what `make test` shows once, again and again and at random, for as long as it is told to.

SOAK_MINUTES says how long all of it takes, about; SOAK_TIMES, how many rounds there are at least, whatever that takes;
SOAK_SEED does the same things again in the same order. What is told of a failure begins with the seed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.conftest import make_cluster, pytest_runtest_call
from tests.integration.conftest import bucket, server, shell

__all__ = ["bucket", "make_cluster", "pytest_runtest_call", "server", "shell"]

MINUTES = float(os.environ.get("SOAK_MINUTES", "5"))
TIMES = int(os.environ.get("SOAK_TIMES") or 1)
SEED = int(os.environ.get("SOAK_SEED") or random.SystemRandom().randrange(10**6))


_ROUND_S = 6000
"""Far more than the longest round takes on a busy machine."""
_TOLD = pytest.StashKey[list[str]]()


def pytest_report_header() -> str:
    return again()


@pytest.fixture
def told(request: pytest.FixtureRequest) -> list[str]:
    """Lines that are printed when all is over."""
    return request.config.stash.setdefault(_TOLD, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_TOLD, []):
        terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """The words that do it again."""
    report = yield
    if report.failed:
        report.sections.append(("seed", again()))
    return report


def again() -> str:
    return f"SOAK_SEED={SEED} SOAK_MINUTES={MINUTES:g} SOAK_TIMES={TIMES}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The time of a test is for it to spend; it is as long as it was told to be. The rest is for its cluster.
    for item in (each for each in items if each.path.is_relative_to(Path(__file__).parent)):
        item.add_marker(pytest.mark.timeout(1800 + 60 * MINUTES + _ROUND_S * TIMES))


@pytest.fixture
def seed() -> int:
    """What chance begins with."""
    return SEED


@pytest.fixture
def soak_seconds(request: pytest.FixtureRequest) -> float:
    """The share of a test that goes on until it is told to stop."""
    sharing = [item for item in request.session.items if "soak_seconds" in getattr(item, "fixturenames", ())]
    return 60 * MINUTES / len(sharing)


@pytest.fixture
def rounds(soak_seconds: float) -> Iterator[int]:
    """Numbers from 0, until the time is over; as many as SOAK_TIMES says at least, one without it."""

    def count() -> Iterator[int]:
        end, number = time.monotonic() + soak_seconds, 0
        while number < TIMES or time.monotonic() < end:
            yield number
            number += 1

    return count()

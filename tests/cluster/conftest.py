"""Clusters of real processes, for one test or for a file's; what their logs say is part of the report of a failure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Protocol

import pytest

from headrace.testing.cluster import ClusterBed, Rules, UnsupportedError, open_bed

# A worker that a busy machine gives no time for a while is not to be taken for dead, nor for slow: tests count bytes,
# and look at views. What happens to those that are is shown in test_faults, under the rules of every bed.
PATIENT = Rules(dead_after_s=15.0, mount={"hedge": False})
LOGS = pytest.StashKey[list[ClusterBed]]()


class MakeCluster(Protocol):
    def __call__(
        self, nodes: int, files: Mapping[str, bytes], rules: Rules | None = None, *, start: bool = True
    ) -> ClusterBed: ...


@pytest.fixture
def make_cluster(request: pytest.FixtureRequest) -> Iterator[MakeCluster]:
    """Makes a cluster over these files and, unless told otherwise, starts it; a patient one without rules."""
    yield from _making(request.node)


@pytest.fixture(scope="module")
def make_shared_cluster(request: pytest.FixtureRequest) -> Iterator[MakeCluster]:
    """The same, for all tests of a file."""
    yield from _making(request.node)


def _making(node: pytest.Item | pytest.Collector) -> Iterator[MakeCluster]:
    made = node.stash.setdefault(LOGS, [])

    def make(
        nodes: int, files: Mapping[str, bytes], rules: Rules | None = None, *, start: bool = True
    ) -> ClusterBed:
        cluster = ClusterBed(open_bed(nodes), rules or PATIENT)
        made.append(cluster)
        cluster.fill(files)
        if start:
            cluster.start()
        return cluster

    with contextlib.ExitStack() as ends:
        ends.callback(lambda: [ends.callback(cluster.close) for cluster in made])
        yield make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    """What a bed cannot do here is a reason to skip, not to fail."""
    try:
        return (yield)
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """While the processes still run: the end of every log."""
    report = yield
    if report.when == "call" and report.failed:
        for cluster in [made for node in item.listchain() for made in node.stash.get(LOGS, [])]:
            report.sections.append(("logs of the cluster", cluster.bed.log_tails()))
    return report

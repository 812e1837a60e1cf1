"""Something befalls a worker at any moment, whoever it is and however many copies there are: nobody notices."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.cluster.conftest import MakeCluster
from tests.cluster.epochs import storage_bytes_of_an_epoch
from tests.cluster.striking import FILES, LONGEST_WAIT_S, STRIKES, WHOLE_S, freeze, kill, read_while_struck

from headrace.testing.cluster import Capability, Rules
from headrace.testing.cluster.content import make_files


def test_no_reader_notices_what_befalls_a_worker(
    make_cluster: MakeCluster, seed: int, rounds: Iterator[int]
) -> None:
    for number in rounds:
        chance = random.Random(seed + number)
        strike, replicas = chance.choice(STRIKES), chance.choice((1, 2))
        after_files, victim = chance.randrange(1, len(FILES) - 1), chance.randrange(3)
        read_while_struck(make_cluster, strike, replicas, after_files=after_files, victim=victim).close()


@pytest.mark.parametrize("strike", [kill, freeze], ids=["killed", "frozen"])
def test_a_node_reads_on_without_its_own_worker(make_cluster: MakeCluster, strike, seed: int) -> None:
    cluster = make_cluster(2, FILES)
    reading = cluster.reading(cluster.node(0), "--pause-ms", "30")
    reading.wait_for_files(random.Random(seed).randrange(1, len(FILES) // 2))
    strike(cluster, cluster.node(0))
    summary = reading.finish(timeout_s=WHOLE_S)
    assert not cluster.content.wrong(reading.files())
    assert summary.longest_wait_s < LONGEST_WAIT_S


@pytest.mark.parametrize("replicas", [1, 2])
def test_full_links_between_workers_are_not_taken_for_slow_ones(
    make_cluster: MakeCluster, replicas: int
) -> None:
    """As in `make test`, with members that look whether others are slow."""
    cluster = make_cluster(3, make_files(24, 1 << 20), Rules(replicas=replicas))
    cluster.bed.need(Capability.LINKS)
    cluster.load()
    for node in cluster.bed.nodes:
        node.set_rate(40_000_000, received_bits_per_s=40_000_000)
    # A machine without time for a worker makes it look slow once in a while, a full link in every epoch.
    given = [storage_bytes_of_an_epoch(cluster) for _ in range(5)]
    assert given.count(0) > 2, given

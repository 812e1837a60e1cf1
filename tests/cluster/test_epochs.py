"""Many nodes, one cache: the storage gives each byte once, whoever reads it, and what is read is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.testing.cluster import Capability
from headrace.testing.cluster.content import make_files

from .conftest import PATIENT
from .epochs import storage_bytes_of_an_epoch

MEBIBYTE = 1 << 20
# Headers of Ethernet, IP, TCP and HTTP.
ON_THE_WIRE = 1.02


def test_a_cold_epoch_on_four_nodes_takes_each_byte_once_from_the_storage(make_cluster) -> None:
    cluster = make_cluster(4, make_files(40, MEBIBYTE))
    before = cluster.origin()
    readings = [cluster.reading(node, "--seed", str(seed)) for seed, node in enumerate(cluster.bed.nodes)]
    summaries = [reading.finish() for reading in readings]
    after = cluster.origin()
    assert [summary.size_bytes for summary in summaries] == [cluster.content.size_bytes] * 4
    for reading in readings:
        assert not cluster.content.wrong(reading.files())
    assert after.objects - before.objects == cluster.content.size_bytes
    if Capability.LINKS in cluster.bed.capabilities:
        assert after.link - before.link <= ON_THE_WIRE * cluster.content.size_bytes


def test_four_readers_of_one_cold_file_share_one_fetch(make_cluster) -> None:
    """All nodes ask for the same block at the same moment, again and again: the worst case for a fetch-once cache."""
    cluster = make_cluster(4, make_files(1, 24 * MEBIBYTE))
    readings = [cluster.reading(node) for node in cluster.bed.nodes]
    for reading in readings:
        reading.finish()
        assert not cluster.content.wrong(reading.files())
    assert cluster.origin_object_bytes() == cluster.content.size_bytes


def test_a_second_epoch_takes_nothing_from_the_storage(make_cluster) -> None:
    cluster = make_cluster(3, make_files(20, MEBIBYTE))
    cluster.reading(cluster.node(0)).finish()
    before = cluster.origin_object_bytes()
    for node in cluster.bed.nodes:
        reading = cluster.reading(node, "--drop", "--seed", "1")
        reading.finish()
        assert not cluster.content.wrong(reading.files())
    assert cluster.origin_object_bytes() == before == cluster.content.size_bytes


@pytest.mark.parametrize("replicas", [1, 2])
def test_full_links_between_workers_send_nobody_to_the_storage(make_cluster, replicas: int) -> None:
    """Many readers, and peers whose links take seconds to give what is asked for: busy is not dead."""
    cluster = make_cluster(3, make_files(24, MEBIBYTE), replace(PATIENT, replicas=replicas))
    if Capability.LINKS not in cluster.bed.capabilities:
        pytest.skip("links cannot be limited here")
    cluster.load()
    assert cluster.origin_object_bytes() == cluster.content.size_bytes
    for node in cluster.bed.nodes:
        node.set_rate(40_000_000, received_bits_per_s=40_000_000)
    assert storage_bytes_of_an_epoch(cluster) == 0


def test_what_the_master_tells_is_what_lies_in_the_caches(make_cluster) -> None:
    # So many that no worker is left without one by chance: with 20, every thousandth run had one.
    cluster = make_cluster(3, make_files(60, MEBIBYTE // 4))
    cluster.reading(cluster.node(0)).finish()
    size = cluster.content.size_bytes
    status = cluster.wait_for("all bytes to be reported", lambda status: status.cached_bytes >= size)
    assert status.cached_bytes == size
    assert all(worker.cached_bytes > 0 for worker in status.workers.values()), "a worker owns nothing"


def test_two_copies_of_each_block_cost_one_fetch(make_cluster) -> None:
    cluster = make_cluster(3, make_files(20, MEBIBYTE), replace(PATIENT, replicas=2))
    for node in cluster.bed.nodes:
        reading = cluster.reading(node, "--drop")
        reading.finish()
        assert not cluster.content.wrong(reading.files())
    assert cluster.origin_object_bytes() == cluster.content.size_bytes

"""Nodes join, leave and restart, and the storage is not asked for what the cluster already holds."""

from __future__ import annotations

from headrace.testing.cluster.content import make_files

MEBIBYTE = 1 << 20
# So many that no worker is left without one by chance: with 32, every twentieth run had one.
FILES = make_files(160, MEBIBYTE // 4)


def read_everywhere(cluster, nodes) -> None:
    """Every file, right, on each of the nodes."""
    readings = [cluster.reading(node, "--drop", "--seed", str(seed)) for seed, node in enumerate(nodes)]
    for reading in readings:
        reading.finish()
        assert not cluster.content.wrong(reading.files())


def test_four_nodes_that_join_take_their_share_from_the_others(make_cluster) -> None:
    cluster = make_cluster(4, FILES)
    cluster.load()
    assert cluster.origin_object_bytes() == cluster.content.size_bytes
    joined = cluster.grow(4)
    read_everywhere(cluster, [*joined, cluster.node(0)])
    assert cluster.origin_object_bytes() == cluster.content.size_bytes
    cluster.wait_for(
        "eight workers, of which the new ones hold something",
        lambda status: (
            len(status.active()) == 8 and all(status.workers[node.name].cached_bytes > 0 for node in joined)
        ),
    )


def test_a_drained_worker_leaves_nothing_to_be_fetched_again(make_cluster) -> None:
    cluster = make_cluster(4, FILES)
    cluster.load()
    leaving = cluster.node(3)
    process = cluster.worker(3)
    cluster.drain(leaving)
    assert process.exit_code == 0
    cluster.wait_for("it to be gone", lambda status: not status.workers[leaving.name].is_listed)
    read_everywhere(cluster, cluster.bed.nodes)
    assert cluster.origin_object_bytes() == cluster.content.size_bytes


def test_reads_go_on_while_a_worker_drains(make_cluster) -> None:
    cluster = make_cluster(3, FILES)
    reading = cluster.reading(cluster.node(0), "--drop", "--pause-ms", "20", endless=True)
    reading.wait_for_files(len(FILES) // 2)
    cluster.drain(cluster.node(2))
    reading.enough()
    reading.finish()
    assert not cluster.content.wrong(reading.files())
    assert cluster.origin_object_bytes() == cluster.content.size_bytes


def test_a_rolling_restart_keeps_the_cache(make_cluster) -> None:
    cluster = make_cluster(3, FILES)
    cluster.load()
    size = cluster.content.size_bytes
    for node in cluster.bed.nodes:
        cluster.workers[node.name].stop()
        cluster.start_worker(node)
    cluster.wait_for("all bytes to be back", lambda status: status.cached_bytes >= size)
    read_everywhere(cluster, cluster.bed.nodes)
    assert cluster.origin_object_bytes() == size

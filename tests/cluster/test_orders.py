"""`headrace load`: warm-up by path with copies, cancelled and resumed; eviction and pins by path."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.testing.cluster import Capability, ClusterBed, words
from headrace.testing.cluster.content import make_files

from .conftest import PATIENT, MakeCluster

MEBIBYTE = 1 << 20
FILES = make_files(32, MEBIBYTE)


@pytest.fixture(scope="module")
def shared(make_shared_cluster: MakeCluster) -> ClusterBed:
    """Two workers and a mount for the tests that leave processes alone: to start them takes as long as such a test.

    The mount is on a node without a worker: no block is lent to it, which an eviction would leave where it is.
    """
    cluster = make_shared_cluster(3, FILES, start=False)
    cluster.start_master()
    for node in cluster.bed.nodes[:2]:
        cluster.start_worker(node, wait=False)
    cluster.wait_for_workers(cluster.bed.nodes[:2])
    cluster.start_mount(cluster.node(2))
    return cluster


@pytest.fixture
def cold(shared: ClusterBed) -> ClusterBed:
    """The same, with nothing in its caches, and nothing pinned."""
    shared.load(flags=["--evict"])
    shared.wait_for("empty caches", lambda status: status.cached_bytes == 0)
    return shared


def read_everything(cluster: ClusterBed) -> None:
    """All files, right, through the shared mount."""
    reading = cluster.reading(cluster.node(2), "--drop")
    reading.finish()
    assert not cluster.content.wrong(reading.files())


def test_a_load_brings_everything_in_once_and_keeps_two_copies(make_cluster) -> None:
    cluster = make_cluster(3, FILES, replace(PATIENT, replicas=2))
    cluster.load(flags=["--replicas", "2"])
    size = cluster.content.size_bytes
    assert cluster.origin_object_bytes() == size
    status = cluster.wait_for("two copies of all bytes", lambda status: status.cached_bytes >= 2 * size)
    assert status.cached_bytes == 2 * size
    cluster.node(2).kill(cluster.worker(2))
    reading = cluster.reading(cluster.node(0))
    reading.finish()
    assert not cluster.content.wrong(reading.files())
    assert cluster.origin_object_bytes() == size, "the other copy was not used"


def test_a_load_of_a_folder_brings_in_that_folder_alone(cold: ClusterBed) -> None:
    before = cold.origin_object_bytes()
    cold.load("train/class-1")
    assert cold.origin_object_bytes() - before == cold.content.below("train/class-1")


def test_a_cancelled_load_is_resumed_where_it_was(make_cluster) -> None:
    cluster = make_cluster(2, FILES)
    cluster.bed.need(Capability.LINKS)
    size = cluster.content.size_bytes
    cluster.bed.storage.set_rate(10_000_000)
    cluster.load(flags=[words.DETACHED])
    running = cluster.wait_for(
        "some of the load",
        lambda status: any(load.done_bytes > 4 * MEBIBYTE for load in status.loads.values()),
    )
    (load,) = running.loads.values()
    # What is left would take two minutes: a busy machine gets to cancel it before.
    cluster.bed.storage.set_rate(2_000_000)
    cluster.must(words.cancel_command(cluster.master_url, cluster.token_file, load.id))
    cancelled = cluster.wait_for("its end", lambda status: status.loads[load.id].state == "cancelled")
    assert cancelled.loads[load.id].done_bytes < size
    cluster.bed.storage.set_rate(None)
    cluster.load()
    # Blocks under way when it was cancelled may be fetched a second time; nothing that was in is.
    assert size <= cluster.origin_object_bytes() < 1.25 * size
    status = cluster.wait_for("all bytes", lambda status: status.cached_bytes >= size)
    assert status.cached_bytes == size


def test_a_load_goes_on_when_its_master_is_started_again(make_cluster) -> None:
    cluster = make_cluster(2, FILES)
    cluster.bed.need(Capability.LINKS)
    cluster.bed.storage.set_rate(10_000_000)
    cluster.load(flags=[words.DETACHED])
    cluster.wait_for("some of it", lambda status: any(load.done_bytes for load in status.loads.values()))
    cluster.control.kill(cluster.master)
    cluster.bed.storage.set_rate(None)
    cluster.start_master()
    cluster.wait_for("its end", lambda status: [load.state for load in status.loads.values()] == ["done"])
    assert cluster.origin_object_bytes() < 1.25 * cluster.content.size_bytes


def test_what_is_evicted_is_gone_and_nothing_else(cold: ClusterBed) -> None:
    cluster, before = cold, cold.origin_object_bytes()
    cluster.load()
    size, part = cluster.content.size_bytes, cluster.content.below("train/class-0")
    cluster.load("train/class-0", flags=["--evict"])
    # Each worker reports for itself.
    cluster.wait_for("what is left", lambda status: status.cached_bytes == size - part)
    read_everything(cluster)
    assert cluster.origin_object_bytes() - before == size + part


def test_what_was_pinned_is_evicted_at_once_when_that_is_asked_for(cold: ClusterBed) -> None:
    cluster = cold
    cluster.load("train/class-0", flags=["--pin"])
    part = cluster.content.below("train/class-0")
    cluster.wait_for("it all", lambda status: status.cached_bytes == part)
    cluster.load("train/class-0", flags=["--evict"])
    cluster.wait_for("nothing", lambda status: status.cached_bytes == 0)


def test_a_load_that_verifies_finds_damage_in_a_cache_and_fetches_it_again(cold: ClusterBed) -> None:
    cluster, before = cold, cold.origin_object_bytes()
    cluster.load()
    size, holder = cluster.content.size_bytes, cluster.node(1)
    held = sorted(path for path in (holder.cache_folder / "data").rglob("*") if path.is_file())
    with held[0].open("r+b") as file:
        file.seek(1000)
        byte = file.read(1)[0]
        file.seek(1000)
        file.write(bytes([byte ^ 1]))
    assert cluster.origin_object_bytes() - before == size
    told = cluster.load(flags=["--verify", "--json"])
    assert "did not match" in told
    assert size < cluster.origin_object_bytes() - before <= size + 2 * MEBIBYTE
    status = cluster.wait_for("all bytes", lambda status: status.cached_bytes >= size)
    assert status.cached_bytes == size
    again = cluster.load(flags=["--verify", "--json"])
    assert "did not match" not in again
    read_everything(cluster)


def test_what_is_pinned_stays_whatever_else_is_read(make_cluster) -> None:
    # Both caches together hold less than half of the files.
    rules = replace(PATIENT, quota="8Mi", worker={"eviction": "lru"})
    cluster = make_cluster(2, FILES, rules)
    pinned = [name for name in sorted(FILES) if name.startswith("train/class-2/")][:4]
    cluster.load(*pinned, flags=["--pin"])
    reading = cluster.reading(cluster.node(0), "--drop", "--passes", "2", "--seed", "1")
    reading.finish()
    assert not cluster.content.wrong(reading.files())
    before = cluster.origin_object_bytes()
    again = cluster.reading(cluster.node(1), "--drop", only=pinned)
    again.finish()
    assert not cluster.content.wrong(again.files())
    assert cluster.origin_object_bytes() == before

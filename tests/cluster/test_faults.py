"""One worker killed, frozen, cut off, slow or full while others read: no failed read, no wrong byte, no long wait.

At any moment, and with any number of copies: tests/soak.
"""

from __future__ import annotations

import time

import pytest

from headrace.testing.cluster import Capability, Rules

from .conftest import MakeCluster
from .striking import (
    FILES,
    LONGEST_WAIT_S,
    WHOLE_S,
    Strike,
    cut,
    fill_disk,
    freeze,
    kill,
    read_while_struck,
    slow_down,
)

FAULTS = [
    pytest.param(kill, 1, id="killed"),
    pytest.param(freeze, 2, id="frozen, two copies"),
    pytest.param(cut, 1, id="cut off"),
    pytest.param(slow_down, 2, id="slow"),
    pytest.param(fill_disk, 1, id="out of disk"),
]


@pytest.mark.parametrize(("strike", "replicas"), FAULTS)
def test_reads_go_on_when_a_worker_is(make_cluster: MakeCluster, strike: Strike, replicas: int) -> None:
    read_while_struck(make_cluster, strike, replicas)


def test_a_node_reads_on_without_its_own_worker(make_cluster) -> None:
    cluster = make_cluster(2, FILES)
    reading = cluster.reading(cluster.node(0), "--pause-ms", "30")
    reading.wait_for_files(4)
    kill(cluster, cluster.node(0))
    summary = reading.finish(timeout_s=WHOLE_S)
    assert not cluster.content.wrong(reading.files())
    assert summary.longest_wait_s < LONGEST_WAIT_S


def test_a_frozen_worker_that_goes_on_gives_no_wrong_byte(make_cluster) -> None:
    """It comes back with connections and answers of before, while others have taken its place."""
    cluster = make_cluster(3, FILES)
    victim = cluster.node(2)
    reading = cluster.reading(cluster.node(0), "--drop", "--passes", "3", "--seed", "1")
    for _ in range(3):
        reading.wait_for_files(len(reading.files()) + 4)
        victim.freeze(cluster.worker(2))
        time.sleep(1.0)
        victim.thaw(cluster.worker(2))
    reading.finish(timeout_s=WHOLE_S)
    assert not cluster.content.wrong(reading.files())


def test_a_worker_that_dies_and_returns_serves_what_it_kept(make_cluster) -> None:
    cluster = make_cluster(3, FILES)
    cluster.reading(cluster.node(0)).finish()
    # Readers have their bytes before the disk has them.
    cluster.wait_for("all bytes", lambda status: status.cached_bytes >= cluster.content.size_bytes)
    victim = cluster.node(2)
    victim.kill(cluster.worker(2))
    cluster.wait_for("the worker to be taken out", lambda status: not status.workers[victim.name].is_listed)
    cluster.start_worker(victim)
    before = cluster.origin_object_bytes()
    reading = cluster.reading(cluster.node(1), "--drop")
    reading.finish()
    assert not cluster.content.wrong(reading.files())
    assert cluster.origin_object_bytes() == before


def test_without_any_worker_a_read_waits_and_goes_on_when_one_is_back(make_cluster) -> None:
    cluster = make_cluster(2, FILES)
    reading = cluster.reading(cluster.node(0), "--pause-ms", "30")
    reading.wait_for_files(4)
    for number in (0, 1):
        cluster.node(number).kill(cluster.worker(number))
    time.sleep(1.0)
    waiting = len(reading.files())
    time.sleep(2.0)
    assert len(reading.files()) <= waiting + 1, "a read was answered although no worker lives"
    assert reading.process.is_running()
    cluster.start_worker(cluster.node(1), wait=False)
    reading.finish(timeout_s=WHOLE_S)
    assert not cluster.content.wrong(reading.files())


def test_a_read_that_waited_too_long_fails_clearly_and_the_log_says_why(make_cluster) -> None:
    deadline_s = 3.0
    cluster = make_cluster(2, FILES, Rules(read_deadline_s=deadline_s))
    node, name = cluster.node(0), sorted(FILES)[-1]
    for number in (0, 1):
        cluster.node(number).kill(cluster.worker(number))
    reading = cluster.reading(node, only=[name])
    reading.finish(timeout_s=10 * deadline_s)
    (read,) = reading.files()
    assert read.error in ("ETIMEDOUT", "EIO")
    assert read.seconds >= deadline_s * 0.9
    log = cluster.mount(0).log_path.read_text().lower()
    assert "worker" in log and ("deadline" in log or "waited" in log or "no worker" in log)
    # The mount is none the worse for it.
    cluster.start_worker(node, wait=False)
    cluster.wait_for_serving(node)
    later = cluster.reading(node, only=[name])
    later.finish(timeout_s=WHOLE_S)
    if later.files()[0].error:
        later = cluster.reading(node, only=[name])
        later.finish(timeout_s=WHOLE_S)
    assert not cluster.content.wrong(later.files())


def test_a_cut_off_reader_goes_on_when_its_link_is_back(make_cluster) -> None:
    cluster = make_cluster(2, FILES)
    cluster.bed.need(Capability.LINKS)
    node = cluster.node(0)
    reading = cluster.reading(node, "--pause-ms", "30")
    reading.wait_for_files(4)
    node.link_down()
    time.sleep(2.0)
    node.link_up()
    reading.finish(timeout_s=WHOLE_S)
    assert not cluster.content.wrong(reading.files())

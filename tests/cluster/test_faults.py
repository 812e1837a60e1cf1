"""One worker killed, frozen, cut off, slow or full while others read: no failed read, no wrong byte, no long wait.

At any moment, and with any number of copies: tests/soak.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.testing.cluster import Capability, Rules
from headrace.testing.cluster.cluster_bed import wait_until
from headrace.testing.cluster.content import make_files
from headrace.testing.cluster.reading import Reading
from headrace.testing.made_files import MadeFiles

from .conftest import MakeCluster
from .striking import (
    FILES,
    LONGEST_WAIT_S,
    MEBIBYTE,
    WHOLE_S,
    Strike,
    cut,
    fill_disk,
    freeze,
    kill,
    read_while_struck,
    slow_down,
)

# What they are to find out they find out soon.
QUICK = Rules()
LARGE_FILES = make_files(4, 9 * MEBIBYTE + 5)
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


@pytest.mark.parametrize(
    ("files", "after_files"),
    [pytest.param(FILES, 4, id="files of a block"), pytest.param(LARGE_FILES, 1, id="large files")],
)
def test_a_node_reads_on_without_its_own_worker(make_cluster, files: MadeFiles, after_files: int) -> None:
    """Which was storing what the mount would read from its files."""
    cluster = make_cluster(2, files, QUICK)
    reading = cluster.reading(cluster.node(0), "--pause-ms", "30")
    reading.wait_for_files(after_files)
    kill(cluster, cluster.node(0))
    summary = reading.finish(timeout_s=WHOLE_S)
    assert not cluster.content.wrong(reading.files())
    assert summary.longest_wait_s < LONGEST_WAIT_S


def test_a_frozen_worker_that_goes_on_gives_no_wrong_byte(make_cluster) -> None:
    """It comes back with connections and answers of before, while others have taken its place."""
    cluster = make_cluster(3, FILES, QUICK)
    victim = cluster.node(2)
    reading = cluster.reading(cluster.node(0), "--drop", "--seed", "1", endless=True)
    for _ in range(3):
        reading.wait_for_files(len(reading.files()) + 4)
        victim.freeze(cluster.worker(2))
        time.sleep(1.0)
        victim.thaw(cluster.worker(2))
    reading.wait_for_files(len(reading.files()) + 4)
    reading.enough()
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
    cluster = make_cluster(2, FILES, QUICK)
    names = sorted(FILES)
    cluster.reading(cluster.node(0), only=names[:4]).finish()
    for number in (0, 1):
        cluster.node(number).kill(cluster.worker(number))
    reading = cluster.reading(cluster.node(0), only=names[4:])
    mountpoint = cluster.mountpoint(cluster.node(0))
    wait_until(lambda: reads_below(reading.process.pid, mountpoint), "the reader to read", timeout_s=WHOLE_S)
    wait_until_it_stands_still(reading)
    cluster.start_worker(cluster.node(1), wait=False)
    reading.finish(timeout_s=WHOLE_S)
    assert not cluster.content.wrong(reading.files())


def reads_below(pid: int, mountpoint: Path) -> bool:
    """True when a process has a file of the mount open."""
    with contextlib.suppress(OSError):
        return any(file.readlink().is_relative_to(mountpoint) for file in Path(f"/proc/{pid}/fd").iterdir())
    return False


def wait_until_it_stands_still(reading: Reading, for_s: float = 2.0) -> None:
    """What was under way may still come; then nothing does, although the reader wants more."""
    read, since = len(reading.files()), time.monotonic()
    while time.monotonic() - since < for_s:
        assert reading.process.is_running(), "all reads were answered although no worker lives"
        time.sleep(0.1)
        if (now := len(reading.files())) != read:
            read, since = now, time.monotonic()


def test_a_read_that_waited_too_long_fails_clearly_and_the_log_says_why(make_cluster) -> None:
    deadline_s = 3.0
    cluster = make_cluster(2, FILES, replace(QUICK, read_deadline_s=deadline_s))
    node, name = cluster.node(0), sorted(FILES)[-1]
    for number in (0, 1):
        cluster.node(number).kill(cluster.worker(number))
    reading = cluster.reading(node, only=[name])
    reading.finish(timeout_s=WHOLE_S)
    (read,) = reading.files()
    assert read.error in ("ETIMEDOUT", "EIO")
    assert read.seconds >= deadline_s * 0.9
    log = cluster.mount(0).log_path

    def is_told() -> bool:
        text = log.read_text().lower()
        return "worker" in text and ("deadline" in text or "waited" in text or "no worker" in text)

    wait_until(is_told, "a word about it", timeout_s=WHOLE_S)
    # The mount is none the worse for it.
    cluster.start_worker(node, wait=False)
    cluster.wait_for_serving(node)

    def reads_well() -> bool:
        later = cluster.reading(node, only=[name])
        later.finish(timeout_s=WHOLE_S)
        wrong = cluster.content.wrong(later.files())
        assert all(file.error for file in wrong), wrong
        return not wrong

    # Its reads wait for three seconds each, and nobody says when it has heard of the worker.
    wait_until(reads_well, "a read that is right", timeout_s=WHOLE_S)


def test_a_cut_off_reader_goes_on_when_its_link_is_back(make_cluster) -> None:
    cluster = make_cluster(2, FILES, QUICK)
    cluster.bed.need(Capability.LINKS)
    node = cluster.node(0)
    reading = cluster.reading(node, "--pause-ms", "30")
    reading.wait_for_files(4)
    node.link_down()
    time.sleep(2.0)
    node.link_up()
    reading.finish(timeout_s=WHOLE_S)
    assert not cluster.content.wrong(reading.files())

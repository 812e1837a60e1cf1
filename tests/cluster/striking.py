"""What befalls a worker while others read: killed, frozen, cut off, slow or full."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable

from headrace.testing.cluster import Capability, ClusterBed, Node, Rules
from headrace.testing.cluster.content import make_files
from headrace.testing.cluster.folders import mount_small_disk

from .conftest import MakeCluster

MEBIBYTE = 1 << 20
FILES = make_files(36, MEBIBYTE)
SMALL_DISK_BYTES = 48 * MEBIBYTE
# What a disk that is full still has: less than one block.
LEFT_OVER_BYTES = 300_000
# Generous: the test machine is small. What is promised is measured by the benchmark.
LONGEST_WAIT_S = 30
WHOLE_S = 180

Strike = Callable[[ClusterBed, Node], None]


def kill(cluster: ClusterBed, node: Node) -> None:
    node.kill(cluster.workers[node.name])


def freeze(cluster: ClusterBed, node: Node) -> None:
    node.freeze(cluster.workers[node.name])


def cut(_: ClusterBed, node: Node) -> None:
    node.link_down()


def slow_down(_: ClusterBed, node: Node) -> None:
    node.set_rate(2_000_000, received_bits_per_s=2_000_000)


def fill_disk(_: ClusterBed, node: Node) -> None:
    # Others write there at the same time: what is free may be gone a moment later.
    for number in range(10):
        room = shutil.disk_usage(node.cache_folder).free - LEFT_OVER_BYTES
        if room <= 0:
            return
        with (node.cache_folder / f"ballast-{number}").open("wb") as ballast, contextlib.suppress(OSError):
            os.posix_fallocate(ballast.fileno(), 0, room)
    raise RuntimeError("the disk did not get full")


STRIKES: tuple[Strike, ...] = (kill, freeze, cut, slow_down, fill_disk)
NEED_LINKS = (cut, slow_down)


def read_while_struck(
    make_cluster: MakeCluster, strike: Strike, replicas: int, *, after_files: int = 6, victim: int = 2
) -> ClusterBed:
    """Two nodes of three read everything, cold, and after so many files this befalls a worker: nobody notices."""
    rules = Rules(replicas=replicas, quota=f"{SMALL_DISK_BYTES * 3 // 4}")
    cluster = make_cluster(3, FILES, rules, start=False)
    node = cluster.node(victim)
    if strike in NEED_LINKS:
        cluster.bed.need(Capability.LINKS)
    if strike is fill_disk:
        cluster.bed.need(Capability.SMALL_DISKS)
        mount_small_disk(node.cache_folder, SMALL_DISK_BYTES)
    cluster.start()
    readers = [each for each in cluster.bed.nodes if each is not node]
    readings = [
        cluster.reading(each, "--seed", str(seed), "--pause-ms", "30") for seed, each in enumerate(readers)
    ]
    readings[0].wait_for_files(after_files)
    strike(cluster, node)
    for reading in readings:
        summary = reading.finish(timeout_s=WHOLE_S)
        assert summary.size_bytes == cluster.content.size_bytes
        assert not cluster.content.wrong(reading.files())
        assert summary.longest_wait_s < LONGEST_WAIT_S
    return cluster

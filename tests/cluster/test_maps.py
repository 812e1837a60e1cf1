"""Maps of files that the worker of the same machine lends to a mount, and bits that rot in a worker's cache."""

from __future__ import annotations

import mmap
import os
from dataclasses import replace
from pathlib import Path

import pytest
from lone_maps import Maps

from headrace.testing.cluster import Capability, ClusterBed, Node
from headrace.testing.cluster.content import make_files
from headrace.testing.cluster.folders import mount_small_disk

from .conftest import PATIENT

SIZE = 8 << 20
FILES = make_files(9, SIZE)
RULES = replace(PATIENT, quota="32Mi")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="passthrough needs CAP_SYS_ADMIN")


def data_files(node: Node) -> dict[Path, int]:
    """What lies in a worker's cache, with the room that it takes."""
    return {path: taken(path) for path in node.cache_folder.glob("data/*/*")}


def taken(data: Path) -> int:
    try:
        return data.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def read(cluster: ClusterBed, node: Node, name: str) -> bytes:
    """Past the page cache, as far as the mount has one."""
    descriptor = os.open(cluster.mountpoint(node) / name, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def map_a_lent_file(cluster: ClusterBed, node: Node) -> tuple[Maps, Path]:
    """Maps of a file that the worker of the node has as a whole, and its data file there."""
    name = next(iter(FILES))

    def whole() -> list[Path]:
        read(cluster, node, name)
        return [data for data, bytes_taken in data_files(node).items() if bytes_taken >= SIZE]

    cluster.wait_for("the whole file in the cache", lambda _: bool(whole()))
    maps = Maps()
    maps.add(cluster.mountpoint(node) / name, FILES[name])
    return maps, whole()[0]


def test_draining_a_worker_changes_no_byte_under_a_map(make_cluster) -> None:
    cluster = make_cluster(2, {name: FILES[name] for name in list(FILES)[:1]}, RULES)
    for node in cluster.bed.nodes:
        read(cluster, node, next(iter(FILES)))
    # Readers have their bytes before the disk has them.
    cluster.wait_for("the file in a cache", lambda status: status.cached_bytes >= SIZE)
    (owner,) = [owner for owner in cluster.bed.nodes if data_files(owner)]
    maps, _ = map_a_lent_file(cluster, owner)
    try:
        cluster.drain(owner)
        maps.must_be_right()
    finally:
        maps.close()


def test_bits_that_rot_behind_a_remembered_checksum_are_replaced_for_the_next_reader(make_cluster) -> None:
    cluster = make_cluster(2, FILES, RULES, start=False)
    owner, reader = cluster.bed.nodes
    # Memory is never written back, so a write through a map changes no time of the file: as a bit that rots. On a disk
    # it does whenever the page was written back since the last one.
    cluster.bed.need(Capability.SMALL_DISKS)
    mount_small_disk(owner.cache_folder, 8 * SIZE)
    cluster.start_master()
    cluster.start_worker(owner)
    cluster.start_mount(reader)
    name = next(iter(FILES))
    assert read(cluster, reader, name) == FILES[name]
    cluster.wait_for("the file in the cache", lambda status: status.cached_bytes >= SIZE)
    (data,) = data_files(owner)
    with data.open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as memory:
        for _ in range(2):
            mount_anew(cluster, reader)
            assert read(cluster, reader, name) == FILES[name]
        times = data.stat()
        memory[300_000] ^= 0xFF
        assert (data.stat().st_mtime_ns, data.stat().st_ctime_ns) == (times.st_mtime_ns, times.st_ctime_ns)
        mount_anew(cluster, reader)
        assert read(cluster, reader, name) == FILES[name]
        # A reader has its bytes before the cache has them.
        cluster.wait_for("right bytes in the cache", lambda _: memory[:] == FILES[name])


def mount_anew(cluster: ClusterBed, node: Node) -> None:
    """Without what the process before kept in memory."""
    cluster.stop_mount(node)
    cluster.start_mount(node)

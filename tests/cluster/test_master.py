"""The master is out of the read path: it may die at any time, and a new one learns back what the old one knew."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest
from tests.integration.harness import why_no_view

from headrace.testing.cluster.content import make_files
from headrace.testing.processes import freeze

MEBIBYTE = 1 << 20
FILES = make_files(24, MEBIBYTE)


def test_reads_go_on_without_a_master(make_cluster) -> None:
    cluster = make_cluster(3, FILES)
    readings = [cluster.reading(node, "--pause-ms", "20") for node in cluster.bed.nodes]
    readings[0].wait_for_files(4)
    cluster.control.kill(cluster.master)
    for reading in readings:
        reading.finish()
        assert not cluster.content.wrong(reading.files())
    assert cluster.origin_object_bytes() == cluster.content.size_bytes


def test_a_mount_and_a_worker_start_again_from_what_they_knew_last(make_cluster) -> None:
    cluster = make_cluster(2, FILES)
    cluster.reading(cluster.node(0)).finish()
    # Readers have their bytes before the disk has them.
    cluster.wait_for("all bytes", lambda status: status.cached_bytes >= cluster.content.size_bytes)
    cluster.control.kill(cluster.master)
    cluster.master = None
    cluster.stop_mount(cluster.node(0))
    cluster.worker(1).stop()
    cluster.start_worker(cluster.node(1), wait=False)
    cluster.wait_for_serving(cluster.node(1))
    cluster.start_mount(cluster.node(0))
    before = cluster.origin_object_bytes()
    reading = cluster.reading(cluster.node(0), "--drop")
    reading.finish()
    assert not cluster.content.wrong(reading.files())
    assert cluster.origin_object_bytes() == before, "the cache of a worker without a master was not used"


def test_a_worker_may_die_while_the_master_is_dead(make_cluster) -> None:
    """Nobody tells the mounts: they find out by themselves."""
    cluster = make_cluster(3, FILES)
    cluster.control.kill(cluster.master)
    cluster.master = None
    reading = cluster.reading(cluster.node(0), "--pause-ms", "20")
    reading.wait_for_files(4)
    cluster.node(2).kill(cluster.worker(2))
    reading.finish()
    assert not cluster.content.wrong(reading.files())


@pytest.mark.parametrize("lost", [False, True], ids=["with its state", "without its state"])
def test_a_new_master_is_told_everything_again(make_cluster, lost: bool) -> None:
    cluster = make_cluster(3, FILES)
    cluster.reading(cluster.node(0)).finish()
    size, names = cluster.content.size_bytes, {node.name for node in cluster.bed.nodes}
    before = cluster.wait_for("all bytes to be reported", lambda status: status.cached_bytes == size)
    cluster.control.kill(cluster.master)
    if lost:
        shutil.rmtree(cluster.control.state_folder / "master")
    # Without its state it is quiet for twice as long as it takes a worker for alive.
    cluster.start_master(dead_after_s=6.0 if lost else cluster.rules.dead_after_s)
    after = cluster.wait_for(
        "the whole state",
        lambda status: status.epoch > 0 and status.active() == names and status.cached_bytes == size,
    )
    assert after.epoch >= before.epoch, "an epoch that members have seen was used again"
    assert after.files == before.files
    cluster.wait_for("the mounts", lambda status: set(status.mounts) == names)
    reading = cluster.reading(cluster.node(1), "--drop")
    reading.finish()
    assert not cluster.content.wrong(reading.files())
    assert cluster.origin_object_bytes() == size


def read_cold(cluster, node, names: Iterable[str]) -> None:
    """Reads files that nobody has read before, and that only the workers can give."""
    reading = cluster.reading(node, only=list(names))
    reading.finish()
    assert not cluster.content.wrong(reading.files())


def lose_the_master(cluster) -> None:
    cluster.control.kill(cluster.master)
    cluster.master = None
    shutil.rmtree(cluster.control.state_folder / "master")


def test_cold_reads_do_not_wait_for_a_new_master_to_know_its_workers(make_cluster) -> None:
    """Whoever goes by a view goes on by it, and starts again by it, until the next master has one."""
    cluster = make_cluster(2, FILES)
    names = iter(sorted(FILES))
    read_cold(cluster, cluster.node(0), islice(names, 4))
    lose_the_master(cluster)
    # It learns for longer than any read of this test waits.
    cluster.start_master(dead_after_s=600.0)
    workers = {node.name for node in cluster.bed.nodes}
    cluster.wait_for("the workers to report", lambda status: status.active() == workers)
    cluster.wait_for("the mounts to report", lambda status: set(status.mounts) == workers)
    for node in cluster.bed.nodes:
        read_cold(cluster, node, islice(names, 3))
    cluster.worker(1).stop()
    cluster.start_worker(cluster.node(1), wait=False)
    cluster.wait_for_serving(cluster.node(1))
    cluster.stop_mount(cluster.node(0))
    cluster.start_mount(cluster.node(0))
    read_cold(cluster, cluster.node(0), islice(names, 4))
    assert cluster.status().epoch == 0, "the reads were to be answered before"
    # What the new one said is not what they go by when it is gone, either.
    lose_the_master(cluster)
    read_cold(cluster, cluster.node(1), islice(names, 4))
    # The next one is told of all workers by each of them, and publishes no half of them.
    cluster.start_master(dead_after_s=6.0)
    cluster.wait_for("a view", lambda status: status.epoch > 0)
    log = cluster.control.log_folder.joinpath("master.log").read_text()
    published = re.findall(r"master: epoch \d+: (\d+) workers", log.rpartition("master: cluster")[2])
    assert published[0] == "2", published
    read_cold(cluster, cluster.node(0), names)


def test_a_master_that_numbers_the_files_anew_leads_nobody_to_another_file(make_cluster) -> None:
    """What the kernel remembers of one file must never be shown for another of the same number."""
    cluster = make_cluster(1, FILES)
    cluster.fill(make_files(6, MEBIBYTE, folder="added"))  # before the others, where all is numbered at once
    os.kill(cluster.master.pid, signal.SIGHUP)
    files = len(cluster.content.sizes)
    cluster.wait_for(
        "the mount to show all files", lambda status: _shown(cluster) == {2} and status.files == files
    )
    inodes = _inodes(cluster)
    first = cluster.reading(cluster.node(0))
    first.finish()
    assert len(first.files()) == files
    assert not cluster.content.wrong(first.files())

    cluster.control.kill(cluster.master)
    shutil.rmtree(cluster.control.state_folder / "master")
    cluster.start_master(dead_after_s=6.0)
    cluster.wait_for("the mount to follow the new master", lambda _: _shown(cluster) == {1})
    assert _inodes(cluster) == inodes
    second = cluster.reading(cluster.node(0))
    second.finish()
    assert len(second.files()) == files
    assert not cluster.content.wrong(second.files())


@pytest.mark.skipif(bool(why_no_view()), reason=str(why_no_view()))
def test_a_view_follows_the_list_of_its_master(make_cluster) -> None:
    cluster = make_cluster(2, FILES)
    node = cluster.node(0)
    cluster.stop_mount(node)
    cluster.start_mount(node, mode="view", allow_other=True)
    first = cluster.reading(node)
    first.finish()
    assert not cluster.content.wrong(first.files())
    cluster.fill(make_files(6, MEBIBYTE, folder="added"))
    os.kill(cluster.master.pid, signal.SIGHUP)
    files = len(cluster.content.sizes)
    root = cluster.mountpoint(node)
    cluster.wait_for("the new folder", lambda _: "added" in {path.name for path in root.iterdir()})
    second = cluster.reading(node)
    second.finish()
    assert len(second.files()) == files
    assert not cluster.content.wrong(second.files())
    assert cluster.origin_object_bytes() == cluster.content.size_bytes


def _shown(cluster) -> set[int]:
    """The snapshots that mounts go by."""
    return {one["snapshot_version"] for one in cluster.status().raw["mounts"]}


def _inodes(cluster) -> dict[str, int]:
    """The number of each file and folder, by its path."""
    root = cluster.mountpoint(cluster.node(0))
    return {str(path.relative_to(root)): path.stat().st_ino for path in root.rglob("*")}


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_a_mount_that_was_away_while_a_new_master_numbered_anew_shows_what_there_is(make_cluster) -> None:
    """Both snapshots are the first of their master, and still not the same."""
    cluster = make_cluster(1, FILES)
    node = cluster.node(0)
    root = cluster.mountpoint(node)
    cluster.wait_for("the mount to be known", lambda _: _shown(cluster) == {1})
    before = {path.name for path in root.iterdir()}
    supervisor = cluster.mounts[node.name].pid
    # The mount may have been there before the process that was called went on as its supervisor.
    cluster.wait_for(
        "the supervisor", lambda _: "headrace.roles.supervision.supervisor" in command_of(supervisor)
    )
    (serving,) = set(cluster.mount_processes(node)) - {supervisor}
    freeze(supervisor)
    os.kill(serving, signal.SIGKILL)
    cluster.control.kill(cluster.master)
    shutil.rmtree(cluster.control.state_folder / "master")
    cluster.fill(make_files(6, MEBIBYTE, folder="added"))
    cluster.start_master(dead_after_s=6.0)
    os.kill(supervisor, signal.SIGCONT)
    files = len(cluster.content.sizes)
    cluster.wait_for(
        "the mount to follow the new master", lambda status: status.files == files and _shown(cluster) == {1}
    )
    # The kernel is told while requests go on.
    cluster.wait_for("the new folder", lambda _: {path.name for path in root.iterdir()} == before | {"added"})
    reading = cluster.reading(node)
    reading.finish()
    assert len(reading.files()) == files
    assert not cluster.content.wrong(reading.files())

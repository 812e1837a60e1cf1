"""A mount of a cluster survives its process as a mount of one machine does, whether or not there is a master to ask."""

from __future__ import annotations

import os
import signal
import time

import pytest

from headrace.testing.cluster import ClusterBed, Node
from headrace.testing.cluster.cluster_bed import fetch_text, parse_metrics, wait_until
from headrace.testing.cluster.content import make_files

MEBIBYTE = 1 << 20
FILES = make_files(24, MEBIBYTE)
METRICS_PORT = 9101
START_S = 120.0
# A process that served for less than a second counts as a quick failure; see headrace.roles.supervision.restarts.
BETWEEN_KILLS_S = 1.2


def mount_process(cluster: ClusterBed, node: Node) -> int | None:
    """What serves the mount: the child of its supervisor. `None` while there is none."""
    children = [pid for pid in cluster.mount_processes(node) if pid != cluster.mounts[node.name].pid]
    return children[0] if children else None


def kill_mount_process(cluster: ClusterBed, node: Node) -> None:
    """Returns when another process has taken its place."""
    before = mount_process(cluster, node)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: mount_process(cluster, node) not in (None, before), "a successor", timeout_s=START_S)


def mount_metrics(node: Node) -> dict[str, float]:
    """What the process of a mount counts; nothing while it starts."""
    try:
        return parse_metrics(fetch_text(f"http://{node.address}:{METRICS_PORT}/metrics"))
    except OSError:
        return {}


@pytest.mark.parametrize("master", [True, False], ids=["with a master", "without a master"])
def test_readers_of_a_killed_mount_process_only_wait(make_cluster, master: bool) -> None:
    cluster = make_cluster(3, FILES)
    node = cluster.node(0)
    reading = cluster.reading(node, "--pause-ms", "100", "--drop", "--passes", "2")
    reading.wait_for_files(2)
    if not master:
        cluster.control.kill(cluster.master)
        cluster.master = None
    for _ in range(3):
        kill_mount_process(cluster, node)
        time.sleep(BETWEEN_KILLS_S)
    reading.finish()
    assert len(reading.files()) == 2 * len(FILES)
    assert not cluster.content.wrong(reading.files())


def test_a_successor_goes_by_the_last_view_and_snapshot_without_a_master(make_cluster) -> None:
    cluster = make_cluster(1, FILES)
    node = cluster.node(0)
    cluster.stop_mount(node)
    cluster.start_mount(node, metrics_address=f"{node.address}:{METRICS_PORT}")
    held = os.open(cluster.mountpoint(node) / sorted(FILES)[0], os.O_RDONLY)
    try:
        before = cluster.status().epoch
        cluster.grow(1)
        epoch = cluster.status().epoch
        assert epoch > before
        cluster.fill({"later": b"later" * 1000})
        os.kill(cluster.master.pid, signal.SIGHUP)
        later = cluster.mountpoint(node) / "later"
        wait_until(later.exists, "the new snapshot", timeout_s=START_S)
        wait_until(
            lambda: mount_metrics(node).get("headrace_cluster_epoch") == epoch, "its view", timeout_s=START_S
        )
        cluster.control.kill(cluster.master)
        cluster.master = None
        kill_mount_process(cluster, node)
        wait_until(
            lambda: mount_metrics(node).get("headrace_mount_restarts_total") == 1, "it", timeout_s=START_S
        )
        assert mount_metrics(node)["headrace_cluster_epoch"] == epoch
        assert mount_metrics(node)["headrace_cluster_members"] == 2
        assert later.read_bytes() == b"later" * 1000
        os.posix_fadvise(held, 0, 0, os.POSIX_FADV_DONTNEED)
        assert os.pread(held, 2 * MEBIBYTE, 0) == FILES[sorted(FILES)[0]]
        # The worker that the mount started with may go: the other one is known.
        node.kill(cluster.worker(0))
        reading = cluster.reading(node, "--drop")
        reading.finish()
        assert not cluster.content.wrong(reading.files())
    finally:
        os.close(held)

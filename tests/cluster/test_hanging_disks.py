"""A worker whose cache disk does not answer: it says so, and no command waits for it."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from headrace.exits import ExitCode
from headrace.process.stat import started_ticks
from headrace.testing.cluster.cluster_bed import CommandError, wait_until
from headrace.testing.cluster.content import make_files
from headrace.testing.cluster.freezing import frozen, mount_disk
from headrace.testing.cluster.words import ClusterStatus

from .conftest import PATIENT, MakeCluster

MEBIBYTE = 1 << 20
# So many that each worker owns some.
FILES = make_files(40, MEBIBYTE // 4)
DEADLINE_S = 120.0
TOLD = "(?s)node-1.*does not answer.*st(art|op) the worker"


def test_commands_end_in_words_reads_go_on_and_a_drain_is_done_when_the_disk_answers(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(2, FILES, replace(PATIENT, quota="64Mi"), start=False)
    reader, victim = cluster.bed.nodes
    mount_disk(victim.cache_folder, 128 * MEBIBYTE)
    cluster.start()
    cluster.load()
    process = cluster.workers[victim.name]
    with frozen(victim.cache_folder):
        for flags in (["--evict"], []):
            with pytest.raises(CommandError, match=TOLD) as failed:
                cluster.load(flags=flags)
            assert str(victim.cache_folder) in str(failed.value)
        cluster.wait_for(
            "the folder in the status",
            lambda status: hanging_folders(status, victim.name) == [str(victim.cache_folder)],
        )
        assert victim.name in cluster.status().active()
        reading = cluster.reading(reader, "--drop")
        reading.finish()
        assert not cluster.content.wrong(reading.files())
        with pytest.raises(CommandError, match=TOLD):
            cluster.drain(victim)
        assert process.is_running()
    wait_until(lambda: not process.is_running(), "the end of the drain", timeout_s=DEADLINE_S)
    assert process.exit_code == 0


def test_a_worker_ends_without_its_disk_and_leaves_its_place_to_another(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(2, FILES, replace(PATIENT, quota="64Mi"), start=False)
    _, victim = cluster.bed.nodes
    mount_disk(victim.cache_folder, 128 * MEBIBYTE)
    cluster.start()
    cluster.load()
    first = cluster.workers[victim.name]
    with frozen(victim.cache_folder):
        os.kill(first.pid, signal.SIGTERM)
        # For the kernel it has ended: only a thread that waits for the disk is left, which nobody can end.
        wait_until(lambda: started_ticks(first.pid) is None, "the end of the worker", timeout_s=DEADLINE_S)
        assert (
            f"the disk of cache folder {victim.cache_folder} does not answer: not closed" in first.log_tail()
        )
        other = victim.folder / "other"
        second = cluster.start_worker(victim, cache=[f"{other}:64Mi"])
        cluster.load()
        assert second.is_running()
    assert first.wait(DEADLINE_S) == ExitCode.UNREACHABLE


def hanging_folders(status: ClusterStatus, worker: str) -> list[str]:
    """What the master says of a worker's disks."""
    (row,) = (row for row in status.raw["workers"] if row["id"] == worker)
    return list(row["hanging_folders"])

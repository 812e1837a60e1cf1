"""Readers of a volume survive whatever is killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.roles.mountpoint.mount_table import mount_at
from headrace.testing.processes import free_port
from integration.harness import Shell, tree_of
from integration.nodes import Node, is_mounted, node_at, until
from integration.survival import readers

pytestmark = pytest.mark.root


def test_readers_only_wait_when_the_mount_process_is_killed(read: Node) -> None:
    with readers(read.root / "target", read.source, count=3):
        os.kill(read.entries()[0]["pid"], 9)
        until(lambda: any(entry["restarts"] == 1 for entry in read.entries()), read.talk)


@pytest.mark.slow
@pytest.mark.parametrize("read", ["elide", "classic", "passthrough"], indirect=True)
def test_readers_only_wait_when_a_whole_pod_is_killed_and_another_comes(read: Node) -> None:
    before = mount_at(str(read.mountpoint))
    with readers(read.root / "target", read.source, count=3) as reading:
        # Twice, so that the second one has inherited, too.
        for _ in range(2):
            reading.wait_for_a_round()
            read.kill_mount()
            assert read.stats(read.root / "target").volume_condition.abnormal
            read.start_mount()
            until(read.is_kept, read.talk)
    assert mount_at(str(read.mountpoint)) == before, "it is the same mount"
    read.stats_when_well(read.root / "target")
    assert "going on with the mount that the keeper held" in read.talk()


def test_readers_only_wait_when_a_pod_is_replaced(read: Node) -> None:
    with readers(read.root / "target", read.source, count=3) as reading:
        for _ in range(2):
            reading.wait_for_a_round()
            assert read.end_mount() == 0
            assert is_mounted(read.mountpoint)
            read.start_mount()
            until(read.is_kept, read.talk)
    assert "WARNING" not in "".join(log.read_text() for log in read.logs[1:])


def test_readers_do_not_notice_a_driver_that_is_killed(read: Node) -> None:
    target = read.root / "target"
    with readers(target, read.source, count=3) as reading:
        read.kill_driver()
        reading.wait_for_a_round()
        read.start_driver()
        held = read.logs[-1]
        until(lambda: f"holds {read.mountpoint}" in held.read_text(), read.talk)
        read.kill_mount()
        read.start_mount()
    read.publish(target)
    read.unpublish(target)
    assert not target.exists()


def test_mounts_of_other_namespaces_go_on_and_end(tmp_path: Path, shell: Shell, flat: Path) -> None:
    """As in pods: other mount numbers, other process numbers, and a first process that takes all others with it."""
    with node_at(tmp_path / "machine", shell, flat) as node:
        node.in_pods = True
        target = node.root / "target"
        for is_first in (True, False, False):
            # Its registry is of other process numbers: what its log says must do.
            node.start_mount(wait=False)
            until(node.is_kept, node.talk)
            if is_first:
                node.publish(target)
                device = mount_at(str(node.mountpoint))
            else:
                assert "going on with the mount that the keeper held" in node.logs[-1].read_text()
            with readers(target, flat, count=2) as reading:
                reading.wait_for_a_round()
                node.kill_mount()
                node.start_mount(wait=False)
                until(node.is_kept, node.talk)
                until(lambda: "resumed by process" in node.logs[-1].read_text(), node.talk)
                assert node.end_supervisor() == 0
                node.start_mount(wait=False)
                until(lambda: "resumed by process" in node.logs[-1].read_text(), node.talk)
            node.kill_mount()
        assert mount_at(str(node.mountpoint)) == device
        node.start_mount(wait=False)
        until(lambda: "resumed by process" in node.logs[-1].read_text(), node.talk)
        node.unpublish(target)
        # Ctrl-C, from within: it unmounts, although the mount was made in a namespace that is gone.
        assert node.end_supervisor(2) == 0
        until(lambda: not is_mounted(node.mountpoint), node.talk)


@pytest.mark.slow
def test_a_member_of_a_cluster_goes_on_in_the_next_pod(tmp_path: Path, shell: Shell, flat: Path) -> None:
    """Also while its master is away: view and snapshot lie in the state folder."""
    port, worker_port, state = free_port(), free_port(), tmp_path / "master"
    shell.environment["HEADRACE_TOKEN"] = "a-token-of-this-test-0123456789abcdef"
    with node_at(tmp_path / "machine", shell, flat) as node, contextlib.ExitStack() as stack:
        url, folder = f"http://127.0.0.1:{port}", str(tmp_path / "worker")
        worker = ["worker", str(flat), "--cluster", url, "--id", "worker-0", "--state-directory", folder]
        worker += ["--listen", f"127.0.0.1:{worker_port}", "--cache", f"{node.root}/worker-cache:1Gi"]
        roles = [
            ["master", str(flat), "--listen", f"127.0.0.1:{port}", "--state-directory", str(state)],
            worker,
        ]
        for words in roles:
            process = node.start(words)
            stack.callback(process.wait)
            stack.callback(process.kill)
            if words[0] == "master":
                master = process
        until(lambda: "worker-0 joins" in node.talk(), node.talk)
        file = node.root / "mount.yaml"
        file.write_text(
            f"master: {url}\nmountpoint: {node.mountpoint}\nallow_other: true\n"
            f"state_directory: {node.root}/member\nkeeper: {node.folder}/keeper/keeper.sock\n"
        )
        node.start_member(file)
        until(node.is_kept, node.talk)
        node.publish(node.root / "target")
        with readers(node.root / "target", flat, count=2) as reading:
            for kind in ("killed", "replaced", "without a master"):
                reading.wait_for_a_round()
                if kind == "without a master":
                    master.kill()
                    master.wait()
                if kind == "killed":
                    node.kill_mount()
                else:
                    assert node.end_mount() == 0
                node.start_member(file)
                until(node.is_kept, node.talk)
                assert "going on with the mount that the keeper held" in node.logs[-1].read_text()


POD = """
import os, subprocess, sys, time
target, inside, wait = sys.argv[1:]
subprocess.run(["mount", "--rbind", target, inside], check=True)
subprocess.run(["mount", "--make-rslave", inside], check=True)
print("ready", flush=True)
for line in sys.stdin:
    try:
        os.statvfs(inside)  # the kernel answers a listing by itself
        print(sorted(os.listdir(inside)), flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


@contextlib.contextmanager
def pod(target: Path, inside: Path) -> Iterator[object]:
    """A program in a mount namespace of its own that has the volume with propagation HostToContainer."""
    inside.mkdir()
    command = ["unshare", "--mount", "--propagation", "slave", "python3", "-c", POD, target, inside, "x"]
    process = subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def listing() -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("again\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield listing
    finally:
        process.kill()
        process.communicate()


def test_a_mount_that_was_lost_is_shown_again_to_who_had_it(read: Node) -> None:
    target, names = read.root / "target", str(sorted(os.listdir(read.source)))
    with pod(target, read.root.parent / "inside") as listing:
        assert listing() == names
        for round_number in range(2):
            read.kill_mount()
            read.kill_driver()
            # ECONNABORTED (103) for whoever asks while the connection ends, then ENOTCONN.
            until(lambda: listing() == "107", read.talk)
            read.start_driver()
            read.start_mount()
            shown = read.logs[-2]
            until(lambda log=shown: "shown again" in log.read_text(), read.talk)
            assert listing() == names, round_number
            assert tree_of(target) == tree_of(read.source)
    read.unpublish(target)
    assert not target.exists()


def test_a_driver_that_lost_its_memory_still_takes_volumes_away(read: Node) -> None:
    target = read.root / "target"
    read.kill_driver()
    (read.folder / "csi" / "published").write_bytes(b"damaged")
    read.start_driver()
    assert "none of ours" in read.talk()
    read.publish(target)
    assert tree_of(target) == tree_of(read.source)
    read.unpublish(target)
    assert not target.exists()


@pytest.mark.slow
def test_a_mount_that_nobody_looks_after_or_uses_is_taken_off(
    tmp_path: Path, shell: Shell, flat: Path
) -> None:
    with node_at(tmp_path / "machine", shell, flat, "--unused-after", "2") as node:
        node.start_mount()
        until(node.is_kept, node.talk)
        target = node.root / "target"
        node.publish(target)
        node.kill_mount()
        time.sleep(4)
        assert is_mounted(node.mountpoint), "it is used"
        node.unpublish(target)
        until(lambda: not is_mounted(node.mountpoint), node.talk)
        node.start_mount()
        assert tree_of(node.mountpoint) == tree_of(flat)


def test_a_mount_without_a_process_does_not_hang_its_readers_for_ever(
    tmp_path: Path, shell: Shell, flat: Path
) -> None:
    with node_at(tmp_path / "machine", shell, flat, "--stranded-after", "2") as node:
        node.start_mount()
        until(node.is_kept, node.talk)
        target = node.root / "target"
        node.publish(target)
        descriptor = os.open(target / "part-07", os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        node.kill_mount()
        with pytest.raises(OSError, match=r"not connected|abort"):
            (target / "nothing-of-that-name").stat()
        os.close(descriptor)
        until(lambda: not is_mounted(node.mountpoint), node.talk)


def test_a_supervisor_that_is_replaced_by_what_is_installed_keeps_its_keeper(read: Node) -> None:
    with readers(read.root / "target", read.source, count=2):
        read.shell.must("restart", read.mountpoint)
        until(lambda: "resumed by process" in read.logs[-1].read_text(), read.talk)
        until(lambda: read.logs[0].read_text().count("mount/source: holds") >= 2, read.talk)
        read.kill_mount()
        read.start_mount()
        assert "going on with the mount that the keeper held" in read.logs[-1].read_text()

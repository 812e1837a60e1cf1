"""How mounts, keeper and driver end, in whichever order."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from pathlib import Path

import grpc
import pytest

from headrace.roles.mountpoint.mount_table import mount_at
from headrace.testing.processes import freeze
from integration.harness import DEADLINE_S, tree_of
from integration.nodes import Node, is_mounted, until

from .kubelet_calls import is_aborted, publish_as_a_kubelet_does

pytestmark = pytest.mark.root


def test_unmounting_takes_the_mount_from_the_keeper(node: Node) -> None:
    node.start_mount()
    until(node.is_kept, node.talk)
    node.shell.must("unmount", node.mountpoint)
    assert node.mount is not None
    assert node.mount.wait(DEADLINE_S) == 0
    until(lambda: "no longer holds" in node.logs[0].read_text(), node.talk)
    node.start_mount()
    assert tree_of(node.mountpoint) == tree_of(node.source)


def test_ctrl_c_unmounts_although_a_keeper_holds_the_mount(node: Node) -> None:
    node.start_mount()
    until(node.is_kept, node.talk)
    assert node.mount is not None
    node.mount.send_signal(2)
    assert node.mount.wait(DEADLINE_S) == 0
    assert not is_mounted(node.mountpoint)


def test_a_mount_with_another_state_folder_does_not_go_on_with_the_connection(read: Node) -> None:
    before = mount_at(str(read.mountpoint))
    read.kill_mount()
    read.start_mount("--state-directory", str(read.root / "other"))
    after = mount_at(str(read.mountpoint))
    assert before is not None
    assert after is not None
    assert before.device != after.device
    until(lambda: "shown again" in read.logs[0].read_text(), read.talk)
    assert tree_of(read.root / "target") == tree_of(read.source)


def test_two_mounts_of_one_place_are_refused(node: Node) -> None:
    node.start_mount()
    until(node.is_kept, node.talk)
    second = node.shell.run(
        "mount",
        node.source,
        node.mountpoint,
        "--foreground",
        "--keeper",
        node.folder / "keeper/keeper.sock",
    )
    assert second.code == 7, second.talk
    assert tree_of(node.mountpoint) == tree_of(node.source)


def test_a_mount_whose_keeper_is_away_begins_and_is_held_once_it_is_there(node: Node) -> None:
    node.kill_driver()
    node.start_mount()
    log = node.logs[-1]
    until(lambda: "is away" in log.read_text(), node.talk)
    node.start_driver()
    until(lambda: "holds what a successor needs" in log.read_text(), node.talk)


@pytest.mark.slow
def test_without_its_keeper_a_mount_that_is_told_to_end_ends(node: Node) -> None:
    node.start_mount()
    until(node.is_kept, node.talk)
    node.kill_driver()
    assert node.end_mount() == 0
    assert not is_mounted(node.mountpoint)


# Longer than a busy machine takes to start a mount.
LINGERING = ("--linger", "200")


def test_the_driver_waits_at_its_end_for_a_mount_that_lives_by_it_alone(read: Node) -> None:
    read.kill_driver()
    read.options = LINGERING
    read.start_driver()
    held = read.logs[-1]
    until(lambda: f"holds {read.mountpoint}" in held.read_text(), read.talk)
    read.kill_mount()
    assert read.driver is not None
    read.driver.terminate()
    time.sleep(1)
    assert read.driver.poll() is None
    read.start_mount()
    assert read.driver.wait(DEADLINE_S) == 0
    assert tree_of(read.root / "target") == tree_of(read.source)


@pytest.mark.slow
@pytest.mark.parametrize("node", [LINGERING], indirect=True, ids=["lingering"])
def test_a_mount_that_loses_its_supervisor_while_the_driver_ends_is_waited_for_as_well(node: Node) -> None:
    """As in an upgrade of both. No pod has it as a volume: it is shown as a folder of the node."""
    node.start_mount()
    until(node.is_kept, node.talk)
    assert node.driver is not None
    # A call that is under way lets the driver's services end slowly.
    missing = {"dataset": "default/missing", "subPath": ""}
    with contextlib.ExitStack() as stack:
        waits = threading.Thread(target=_publish_in_vain, args=(node, missing))
        waits.start()
        stack.callback(waits.join)
        until(lambda: is_aborted(node, node.root / "never", "missing"), node.talk)
        node.driver.terminate()
        until(lambda: not _listens(node.socket), node.talk)
        node.kill_mount()
    # The call has ended, and with it the driver's services.
    time.sleep(1)
    assert node.driver.poll() is None, "it waits"
    assert is_mounted(node.mountpoint)
    node.start_mount()
    assert node.driver.wait(DEADLINE_S) == 0
    assert tree_of(node.mountpoint) == tree_of(node.source)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def _publish_in_vain(node: Node, context: dict[str, str]) -> None:
    with contextlib.suppress(grpc.RpcError):
        publish_as_a_kubelet_does(node, node.root / "never", volume_id="missing", volume_context=context)


@pytest.mark.slow
def test_mount_and_driver_that_are_told_to_end_at_once_leave_no_dead_mount(node: Node) -> None:
    """The mount's supervisor finds the keeper gone that it was about to leave the mount to."""
    node.start_mount()
    until(node.is_kept, node.talk)
    assert node.mount is not None
    (entry,) = node.entries()
    freeze(entry["pid"])
    node.mount.terminate()
    time.sleep(2)  # by now the mount process was told to stop
    node.kill_driver()
    os.kill(entry["pid"], signal.SIGCONT)
    assert node.mount.wait(DEADLINE_S) == 0
    assert not is_mounted(node.mountpoint)
    node.start_driver()


@pytest.mark.parametrize("node", [("--linger", "1")], indirect=True, ids=["impatient"])
@pytest.mark.parametrize("is_used", [False, True], ids=["unused", "used"])
def test_the_driver_leaves_no_dead_mount_that_nobody_uses(node: Node, is_used: bool) -> None:
    """As when mounts and driver are uninstalled at once. Who uses a mount gets errors, and no empty folder."""
    target = node.root / "target"
    node.start_mount()
    until(node.is_kept, node.talk)
    if is_used:
        node.publish(target)
    node.kill_mount()
    assert is_mounted(node.mountpoint)
    assert node.driver is not None
    node.driver.terminate()
    assert node.driver.wait(DEADLINE_S) == 0
    assert is_mounted(node.mountpoint) == is_used
    if is_used:
        node.start_driver()
        node.unpublish(target)

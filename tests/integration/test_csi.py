"""The CSI driver with real mounts: volumes come and go as a kubelet wishes, and readers survive whatever is killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import grpc
import pytest

from headrace.csi.specification import csi_pb2, csi_pb2_grpc, registration_pb2, registration_pb2_grpc
from headrace.roles.mount_table import mount_at
from headrace.testing.processes import free_port

from .harness import DEADLINE_S, Shell, tree_of
from .nodes import DATASET, Node, capability, is_mounted, node_at, until
from .survival import readers, shell_without_server

pytestmark = pytest.mark.root

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return _made_source(tmp_path / "source")


def _made_source(folder: Path) -> Path:
    (folder / "sub" / "deep").mkdir(parents=True)
    for number in range(8):
        content = random.Random(number).randbytes(700_000 + number * 100_000)
        (folder / f"part-{number:02}").write_bytes(content)
        (folder / "sub" / "deep" / f"leaf-{number}").write_bytes(content[:1000])
    (folder / "out").symlink_to("/etc")
    (folder / "in").symlink_to("sub/deep")
    return folder


@pytest.fixture
def flat(source: Path) -> Path:
    """A source that `readers` understands: files, and no folders."""
    folder = source.parent / "flat" / "source"
    folder.mkdir(parents=True)
    for file in source.glob("part-*"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return shell_without_server(tmp_path / "home")


@pytest.fixture
def node(tmp_path: Path, shell: Shell, source: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    """A node whose driver has the words that the test names."""
    with node_at(tmp_path / "machine", shell, source, *getattr(request, "param", ())) as node:
        yield node


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for the tests that leave it as they found it: a driver and a mount cost a second."""
    root = tmp_path_factory.mktemp("shared")
    shell = shell_without_server(root / "home")
    with node_at(root / "machine", shell, _made_source(root / "source")) as node:
        node.start_mount()
        yield node


@contextlib.contextmanager
def refused(code: grpc.StatusCode) -> Iterator[None]:
    with pytest.raises(grpc.RpcError) as caught:
        yield
    assert caught.value.code() is code, caught.value.details()
    assert "Traceback" not in caught.value.details()


# Volumes


def test_a_volume_shows_the_dataset_read_only_and_goes_without_a_trace(shared_node: Node) -> None:
    node = shared_node
    target = node.root / "target"
    node.publish(target)
    node.publish(target)
    assert tree_of(target) == tree_of(node.source)
    with pytest.raises(OSError, match="Read-only"):
        (target / "new").write_text("x")
    usage = {each.unit: each for each in node.stats_when_well(target).usage}
    assert usage[csi_pb2.VolumeUsage.BYTES].total >= sum(map(len, tree_of(node.source).values()))
    node.unpublish(target)
    assert not target.exists()
    node.unpublish(target)
    assert tree_of(node.mountpoint) == tree_of(node.source), "the mount itself stays"


def test_a_volume_may_be_published_many_times_and_each_has_its_own_life(shared_node: Node) -> None:
    node = shared_node
    targets = [node.root / f"target-{number}" for number in range(5)]
    threads = [threading.Thread(target=node.publish, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for target in targets:
        assert tree_of(target) == tree_of(node.source)
        node.unpublish(target)
        assert not target.exists()


def test_a_part_of_the_dataset_can_be_a_volume(shared_node: Node) -> None:
    node = shared_node
    for number, part in enumerate(("sub", "sub/deep", "in")):
        target = node.root / f"target-{number}"
        node.publish(target, volume_context={"dataset": DATASET, "subPath": part})
        assert tree_of(target) == tree_of(node.source / part)
        node.unpublish(target)


def test_a_pod_that_comes_before_its_mount_waits_for_it(node: Node) -> None:
    target = node.root / "target"
    with refused(grpc.StatusCode.UNAVAILABLE):
        node.publish(target, timeout_s=3)
    assert not target.exists(), "a call that failed leaves nothing"
    published = threading.Thread(target=_publish_as_a_kubelet_does, args=(node, target))
    published.start()
    until(lambda: _is_aborted(node, target), node.talk)
    node.start_mount()
    published.join(DEADLINE_S)
    assert tree_of(target) == tree_of(node.source)
    node.unpublish(target)


def _publish_as_a_kubelet_does(node: Node, target: Path, **changes: object) -> None:
    """Again while another call is at the same place: the test asks there until this one is."""
    while True:
        try:
            node.publish(target, timeout_s=60, **changes)
            break
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ABORTED:
                raise
        time.sleep(0.01)


def _is_aborted(node: Node, target: Path, volume_id: str = "data") -> bool:
    """Whether taking the volume away is refused because another call for it is under way."""
    try:
        node.unpublish(target, volume_id)
    except grpc.RpcError as error:
        return bool(error.code() == grpc.StatusCode.ABORTED)
    return False


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"volume_id": ""}, INVALID),
        ({"target_path": ""}, INVALID),
        ({"target_path": "relative"}, INVALID),
        ({"target_path": "/tmp/../etc/target"}, INVALID),
        ({"volume_capability": None}, INVALID),
        ({"volume_capability": csi_pb2.VolumeCapability()}, INVALID),
        (
            {"volume_capability": csi_pb2.VolumeCapability(block=csi_pb2.VolumeCapability.BlockVolume())},
            grpc.StatusCode.FAILED_PRECONDITION,
        ),
        ({"volume_capability": capability(flags=("suid=s3cret",))}, grpc.StatusCode.FAILED_PRECONDITION),
        ({"volume_context": {}}, INVALID),
        ({"volume_context": {"dataset": "data"}}, INVALID),
        ({"volume_context": {"dataset": "../data"}}, INVALID),
        ({"volume_context": {"dataset": "default/../data"}}, INVALID),
        ({"volume_context": {"dataset": DATASET, "subPath": "../x"}}, INVALID),
        ({"volume_context": {"dataset": DATASET, "subPath": "/etc"}}, INVALID),
        ({"volume_context": {"dataset": DATASET, "subPath": "out"}}, INVALID),
        ({"volume_context": {"dataset": DATASET, "subPath": "nowhere"}}, grpc.StatusCode.NOT_FOUND),
        ({"volume_context": {"dataset": DATASET, "subPath": "part-00"}}, grpc.StatusCode.NOT_FOUND),
        ({"volume_context": {"dataset": "default/other"}}, grpc.StatusCode.UNAVAILABLE),
    ],
)
def test_wrong_words_are_refused_by_their_code_and_leave_nothing(
    shared_node: Node, changes: dict, code: grpc.StatusCode
) -> None:
    node, target = shared_node, shared_node.root / "target"
    with refused(code):
        node.publish(target, timeout_s=3, secrets={"password": "s3cret"}, **changes)
    assert not target.exists()
    assert "s3cret" not in node.talk()


def test_another_volume_at_the_same_place_is_refused(shared_node: Node) -> None:
    target = shared_node.root / "same"
    shared_node.publish(target)
    with refused(grpc.StatusCode.ALREADY_EXISTS):
        shared_node.publish(target, volume_id="other")
    with refused(grpc.StatusCode.ALREADY_EXISTS):
        shared_node.publish(target, readonly=True)
    with refused(grpc.StatusCode.NOT_FOUND):
        shared_node.unpublish(target, volume_id="other")
    with refused(grpc.StatusCode.NOT_FOUND):
        shared_node.stats(target, volume_id="other")
    shared_node.unpublish(target)
    with refused(grpc.StatusCode.NOT_FOUND):
        shared_node.stats(target)


@pytest.mark.parametrize(("volume_id", "path"), [("", "/target"), ("data", "")])
def test_what_a_call_needs_is_demanded(shared_node: Node, volume_id: str, path: str) -> None:
    for method, request in (
        ("NodeUnpublishVolume", csi_pb2.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=path)),
        ("NodeGetVolumeStats", csi_pb2.NodeGetVolumeStatsRequest(volume_id=volume_id, volume_path=path)),
    ):
        with refused(INVALID):
            shared_node.call(method, request)


def test_what_is_not_ours_stays(shared_node: Node) -> None:
    target = shared_node.root / "theirs"
    target.mkdir()
    (target / "file").touch()
    with refused(grpc.StatusCode.ABORTED):
        shared_node.unpublish(target)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(target)], check=True)
    for call in (shared_node.publish, shared_node.unpublish):
        with refused(grpc.StatusCode.ABORTED):
            call(target)
    subprocess.run(["umount", str(target)], check=True)
    assert (target / "file").exists()


def test_who_the_driver_is(shared_node: Node) -> None:
    with shared_node.channel() as channel:
        identity = csi_pb2_grpc.IdentityStub(channel)
        info = identity.GetPluginInfo(csi_pb2.GetPluginInfoRequest())
        assert (info.name, bool(info.vendor_version)) == ("fuse.csi.fluid.io", True)
        assert not identity.GetPluginCapabilities(csi_pb2.GetPluginCapabilitiesRequest()).capabilities
        node = csi_pb2_grpc.NodeStub(channel)
        assert node.NodeGetInfo(csi_pb2.NodeGetInfoRequest()).node_id == "node-1"
        with refused(grpc.StatusCode.UNIMPLEMENTED):
            node.NodeStageVolume(csi_pb2.NodeStageVolumeRequest())


# Survival


@pytest.fixture
def read(tmp_path: Path, shell: Shell, flat: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    """A node whose dataset is published at `target`, in the mode of mounting that the test names."""
    with node_at(tmp_path / "machine", shell, flat) as node:
        node.mode = getattr(request, "param", "auto")
        node.start_mount()
        until(node.is_kept, node.talk)
        node.publish(node.root / "target")
        yield node


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


# The end of mounts


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
        until(lambda: _is_aborted(node, node.root / "never", "missing"), node.talk)
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
        _publish_as_a_kubelet_does(node, node.root / "never", volume_id="missing", volume_context=context)


@pytest.mark.slow
def test_mount_and_driver_that_are_told_to_end_at_once_leave_no_dead_mount(node: Node) -> None:
    """The mount's supervisor finds the keeper gone that it was about to leave the mount to."""
    node.start_mount()
    until(node.is_kept, node.talk)
    assert node.mount is not None
    (entry,) = node.entries()
    os.kill(entry["pid"], signal.SIGSTOP)
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


# Health


def test_a_kubelet_learns_of_the_driver(tmp_path: Path, shell: Shell, flat: Path) -> None:
    registry = tmp_path / "registry.sock"
    seen = "/var/lib/kubelet/plugins/headrace/csi.sock"
    options = ("--registration", str(registry), "--kubelet-endpoint", seen)
    with (
        node_at(tmp_path / "machine", shell, flat, *options) as node,
        grpc.insecure_channel(f"unix:{registry}") as channel,
    ):
        stub = registration_pb2_grpc.RegistrationStub(channel)
        # The driver opens this socket after the one that it is asked at first.
        info = stub.GetInfo(registration_pb2.InfoRequest(), timeout=DEADLINE_S, wait_for_ready=True)
        assert (info.type, info.name, info.endpoint) == ("CSIPlugin", "fuse.csi.fluid.io", seen)
        assert list(info.supported_versions) == ["1.12.0"]
        status = registration_pb2.RegistrationStatus
        stub.NotifyRegistrationStatus(status(plugin_registered=False, error="no such node"))
        assert "refuses the driver: no such node" in node.talk()
        stub.NotifyRegistrationStatus(status(plugin_registered=True))
        assert "has registered the driver" in node.talk()


def test_health_and_metrics_can_be_asked_for(tmp_path: Path, shell: Shell, flat: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with node_at(tmp_path / "machine", shell, flat, "--metrics-address", address):
        for page, content in (("healthz", b"well\n"), ("metrics", b"headrace_csi_published 0.0\n")):
            with urlopen(f"http://{address}/{page}") as answer:
                assert content in answer.read()


def test_the_driver_ends_in_order(node: Node) -> None:
    assert node.driver is not None
    node.driver.terminate()
    assert node.driver.wait(DEADLINE_S) == 0
    assert not (node.folder / "keeper" / "keeper.sock").exists()


def test_a_supervisor_that_is_replaced_by_what_is_installed_keeps_its_keeper(read: Node) -> None:
    with readers(read.root / "target", read.source, count=2):
        read.shell.must("restart", read.mountpoint)
        until(lambda: "resumed by process" in read.logs[-1].read_text(), read.talk)
        until(lambda: read.logs[0].read_text().count("mount/source: holds") >= 2, read.talk)
        read.kill_mount()
        read.start_mount()
        assert "going on with the mount that the keeper held" in read.logs[-1].read_text()

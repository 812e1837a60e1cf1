"""Volumes come and go as a kubelet wishes, and what is asked wrongly leaves nothing."""

from __future__ import annotations

import socket
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import grpc
import pytest

from headrace.csi.specification import csi_pb2, csi_pb2_grpc, registration_pb2, registration_pb2_grpc
from headrace.testing.processes import free_port
from integration.harness import DEADLINE_S, Shell, tree_of
from integration.nodes import DATASET, Node, capability, node_at, until

from .kubelet_calls import is_aborted, publish_as_a_kubelet_does, publish_in_vain, refused

pytestmark = pytest.mark.root

INVALID = grpc.StatusCode.INVALID_ARGUMENT


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
    publish_in_vain(node, target)
    assert not target.exists(), "a call that failed leaves nothing"
    published = threading.Thread(target=publish_as_a_kubelet_does, args=(node, target))
    published.start()
    until(lambda: is_aborted(node, target), node.talk)
    node.start_mount()
    published.join(DEADLINE_S)
    assert tree_of(target) == tree_of(node.source)
    node.unpublish(target)


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
    ],
)
def test_wrong_words_are_refused_by_their_code_and_leave_nothing(
    shared_node: Node, changes: dict, code: grpc.StatusCode
) -> None:
    node, target = shared_node, shared_node.root / "target"
    with refused(code):
        node.publish(target, secrets={"password": "s3cret"}, **changes)
    assert not target.exists()
    assert "s3cret" not in node.talk()


def test_a_dataset_that_has_no_mount_is_waited_for_in_vain_and_leaves_nothing(shared_node: Node) -> None:
    node, target = shared_node, shared_node.root / "target"
    publish_in_vain(node, target, secrets={"password": "s3cret"}, volume_context={"dataset": "default/other"})
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


def test_health_and_metrics_can_be_asked_for_beside_connections_that_say_nothing(
    tmp_path: Path, shell: Shell, flat: Path
) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    with node_at(tmp_path / "machine", shell, flat, "--metrics-address", address), ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S))
        for page, content in (("healthz", b"well\n"), ("metrics", b"headrace_csi_published 0.0\n")):
            with urlopen(f"http://{address}/{page}") as answer:
                assert content in answer.read()


def test_the_driver_ends_in_order(node: Node) -> None:
    assert node.driver is not None
    node.driver.terminate()
    assert node.driver.wait(DEADLINE_S) == 0
    assert not (node.folder / "keeper" / "keeper.sock").exists()

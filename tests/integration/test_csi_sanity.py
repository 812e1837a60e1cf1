"""csi-sanity, by which Kubernetes checks drivers of volumes, finds nothing to object to.

It makes volumes by a controller service; the driver has none, as the operator makes them. So one of the test's own
stands before the driver: it hands calls of the services Identity and Node on, and makes volumes of one dataset.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from headrace.csi.specification import csi_pb2, csi_pb2_grpc

from .harness import DEADLINE_S, Shell
from .nodes import DATASET, Node, node_at

pytestmark = pytest.mark.root

INSTALL = Path(__file__).parents[2] / "tools" / "install_csi_sanity.sh"
# As the tests were started: each has a home of its own, where the program would be built again.
ENVIRONMENT = dict(os.environ)
ABSENT = {
    "Service does not have single node multi writer capability": 1,
    "NodeStageVolume not supported": 3,
    "NodeUnstageVolume not supported": 2,
    "NodeExpandVolume not supported": 4,
    "NodeGetVolumeHealth not supported": 2,
    "NodeGetStorageHealth not supported": 1,
    "GroupControllerService not supported": 6,
}
"""What csi-sanity skips by itself, as a capability is not announced: how many tests, by its own words."""


class _Volumes(csi_pb2_grpc.ControllerServicer):
    """Volumes of the one dataset, as the operator would have made them."""

    def ControllerGetCapabilities(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        rpc = csi_pb2.ControllerServiceCapability.RPC
        kind = csi_pb2.ControllerServiceCapability(rpc=rpc(type=rpc.CREATE_DELETE_VOLUME))
        return csi_pb2.ControllerGetCapabilitiesResponse(capabilities=[kind])

    def CreateVolume(self, request: Any, _context: Any) -> Any:  # noqa: N802
        context = {"dataset": DATASET, "subPath": ""}
        return csi_pb2.CreateVolumeResponse(
            volume=csi_pb2.Volume(volume_id=request.name, volume_context=context)
        )

    def DeleteVolume(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return csi_pb2.DeleteVolumeResponse()


class _HandingOn(grpc.GenericRpcHandler):
    """Every call as it is, but for the question whether there is a controller service."""

    def __init__(self, driver: grpc.Channel) -> None:
        self._driver = driver

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = details.method
        return grpc.unary_unary_rpc_method_handler(
            _with_controller if method.endswith("/GetPluginCapabilities") else self._call_of(method)
        )

    def _call_of(self, method: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def call(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                return self._driver.unary_unary(method)(request, timeout=DEADLINE_S)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())

        return call


def _with_controller(_request: bytes, _context: grpc.ServicerContext) -> bytes:
    service = csi_pb2.PluginCapability.Service
    capability = csi_pb2.PluginCapability(service=service(type=service.CONTROLLER_SERVICE))
    return bytes(csi_pb2.GetPluginCapabilitiesResponse(capabilities=[capability]).SerializeToString())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with a driver, and the mount of a dataset."""
    root = tmp_path_factory.mktemp("sanity")
    (root / "source").mkdir()
    (root / "source" / "file").write_bytes(b"x" * 1000)
    (root / "home" / "run").mkdir(parents=True, mode=0o700)
    shell = Shell(root / "home", {"HEADRACE_RUNTIME_DIR": str(root / "home" / "run")})
    with node_at(root / "machine", shell, root / "source") as made:
        made.start_mount()
        yield made


@pytest.fixture
def with_controller(node: Node) -> Iterator[Path]:
    """The socket of the driver with a controller service before it."""
    socket = node.root / "sanity.sock"
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    with node.channel() as driver:
        csi_pb2_grpc.add_ControllerServicer_to_server(_Volumes(), server)
        server.add_generic_rpc_handlers((_HandingOn(driver),))
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        yield socket
        server.stop(grace=None).wait()


def sanity(node: Node, socket: Path, *words: str) -> list[dict[str, Any]]:
    """What csi-sanity says of each of its tests that these words choose."""
    found = subprocess.run([INSTALL], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    report = node.root / "sanity.json"
    places = (f"--csi.mountdir={node.root}/sanity-target", f"--csi.stagingdir={node.root}/sanity-staging")
    command = (found.stdout.strip(), f"--csi.endpoint=unix://{socket}", *places, *words)
    done = subprocess.run(
        [*command, "--ginkgo.no-color", f"--ginkgo.json-report={report}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{node.talk()}"
    (suite,) = json.loads(report.read_text())
    return [each for each in suite["SpecReports"] if each["LeafNodeType"] == "It"]


def names_of(tests: list[dict[str, Any]], state: str) -> list[str]:
    return [
        " ".join((*each["ContainerHierarchyTexts"][1:], each["LeafNodeText"]))
        for each in tests
        if each["State"] == state
    ]


def test_the_driver_says_who_it_is_as_csi_sanity_demands(node: Node) -> None:
    """Asked itself, without anything before it."""
    tests = sanity(node, node.socket, "--ginkgo.focus=Identity Service")
    assert len(names_of(tests, "passed")) == 3, names_of(tests, "passed")


def test_volumes_on_a_node_do_what_csi_sanity_demands(node: Node, with_controller: Path) -> None:
    """All of it but the tests of controllers, which would look at the one of the test."""
    tests = sanity(node, with_controller, r"--ginkgo.skip=\[Controller Server\]")
    passed = names_of(tests, "passed")
    assert {"should work", "should be idempotent", "NodeUnpublishVolume should remove target path"} <= {
        *passed
    }
    assert len(passed) == 17, passed
    assert Counter(_reason(each) for each in tests if each["State"] == "skipped" and _reason(each)) == ABSENT


def _reason(test: dict[str, Any]) -> str:
    """Why it was skipped; nothing when it was not chosen."""
    return str(test.get("Failure", {}).get("Message", ""))

"""The CSI service Identity: who the driver is, and whether it is ready."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from google.protobuf.wrappers_pb2 import BoolValue

from headrace.csi.answers import answered
from headrace.csi.specification import csi_pb2, csi_pb2_grpc
from headrace.plan.volume import DRIVER


class Identity(csi_pb2_grpc.IdentityServicer):
    """A driver of nodes only: volumes are made by the operator, so there is no controller service."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready

    @answered
    async def GetPluginInfo(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Name and version."""
        return csi_pb2.GetPluginInfoResponse(name=DRIVER, vendor_version=version("headrace"))

    @answered
    async def GetPluginCapabilities(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """None: there is no controller, and any node can reach every volume."""
        return csi_pb2.GetPluginCapabilitiesResponse()

    @answered
    async def Probe(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """The readiness of the driver."""
        return csi_pb2.ProbeResponse(ready=BoolValue(value=self._is_ready()))

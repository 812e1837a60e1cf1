"""Tells the kubelet of the node that there is this driver, and where; the driver needs no helper beside it."""

from __future__ import annotations

import logging
from typing import Any

from headrace.csi.answers import answered
from headrace.csi.specification import registration_pb2, registration_pb2_grpc
from headrace.plan.volume import DRIVER

_log = logging.getLogger("headrace.csi")
_SPECIFICATION = "1.12.0"


class Registration(registration_pb2_grpc.RegistrationServicer):
    """Answers at a socket in the kubelet's folder `plugins_registry`."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self.error: str | None = None

    @answered
    async def GetInfo(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """The name and version of the driver."""
        return registration_pb2.PluginInfo(
            type="CSIPlugin", name=DRIVER, endpoint=self._endpoint, supported_versions=[_SPECIFICATION]
        )

    @answered
    async def NotifyRegistrationStatus(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """The kubelet's answer to the registration."""
        self.error = None if request.plugin_registered else request.error or "no reason given"
        if self.error is None:
            _log.info("csi: the kubelet has registered the driver")
        else:
            _log.error("csi: the kubelet refuses the driver: %s", self.error)
        return registration_pb2.RegistrationStatusResponse()

"""The CSI service Node: requests in, words checked, and the work left to `publishing`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headrace.csi.answers import answered
from headrace.csi.publishing import Publishing
from headrace.csi.specification import csi_pb2, csi_pb2_grpc
from headrace.csi.volume_requests import (
    Publication,
    check_path,
    check_volume_id,
    dataset_of,
    flags_of,
    sub_path_of,
)
from headrace.errors import ConfigError, UnsupportedError
from headrace.roles.mountpoint.apart import Health, Usage

_MOST_WAIT_S = 60.0
"""A caller who would wait longer is told to call again, so that it can change its mind meanwhile."""
_RESERVE_S = 1.0
"""Of the caller's deadline, for the answer."""
_RPC = csi_pb2.NodeServiceCapability.RPC


class Node(csi_pb2_grpc.NodeServicer):
    """The work of a node on volumes. There is nothing to stage: all pods of a node share its mount."""

    def __init__(self, name: str, publishing: Publishing) -> None:
        self._name = name
        self._publishing = publishing

    @answered
    async def NodeGetInfo(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """The name of this node."""
        return csi_pb2.NodeGetInfoResponse(node_id=self._name)

    @answered
    async def NodeGetCapabilities(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Sizes of volumes, and how they do."""
        kinds = (_RPC.GET_VOLUME_STATS, _RPC.VOLUME_CONDITION)
        capabilities = [csi_pb2.NodeServiceCapability(rpc=_RPC(type=kind)) for kind in kinds]
        return csi_pb2.NodeGetCapabilitiesResponse(capabilities=capabilities)

    @answered
    async def NodePublishVolume(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Returns once the volume can be read at the target path."""
        await self._publishing.publish(_wanted(request), _left_s(context))
        return csi_pb2.NodePublishVolumeResponse()

    @answered
    async def NodeUnpublishVolume(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Returns once nothing is at the target path."""
        volume_id = check_volume_id(request.volume_id)
        await self._publishing.unpublish(volume_id, check_path(request.target_path, "target_path"))
        return csi_pb2.NodeUnpublishVolumeResponse()

    @answered
    async def NodeGetVolumeStats(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Size and condition."""
        volume_id = check_volume_id(request.volume_id)
        if not request.volume_path:
            raise ConfigError.of("volume_path is missing")
        return _stats(*await self._publishing.usage(volume_id, request.volume_path.rstrip("/")))


def _wanted(request: Any) -> Publication:
    """What a request asks for; raises `ConfigError` and `UnsupportedError`. Secrets are not looked at."""
    volume_id = check_volume_id(request.volume_id)
    target = check_path(request.target_path, "target_path")
    if not request.HasField("volume_capability"):
        raise ConfigError.of("volume_capability is missing")
    capability = request.volume_capability
    kind = capability.WhichOneof("access_type")
    if kind is None:
        raise ConfigError.of("volume_capability has no access type")
    if kind != "mount":
        raise UnsupportedError.of("a dataset is a file system, and no block device")
    return Publication(
        volume_id=volume_id,
        target=target,
        dataset=dataset_of(request.volume_context),
        sub_path=sub_path_of(request.volume_context),
        access_mode=capability.access_mode.mode,
        flags=flags_of(capability.mount.mount_flags),
        readonly=request.readonly,
    )


def _left_s(context: Any) -> Callable[[], float]:
    """How long this call may still wait. An older thing than the caller's deadline is not worth waiting for."""
    until_s = time.monotonic() + _MOST_WAIT_S

    def left_s() -> float:
        remaining = context.time_remaining()
        own = until_s - time.monotonic()
        return own if remaining is None else min(own, remaining - _RESERVE_S)

    return left_s


def _stats(health: Health, usage: Usage | None) -> Any:
    conditions = {
        Health.ANSWERS: "the mount answers",
        Health.SILENT: "the process of the mount is away; programs wait",
        Health.DEAD: "the mount is lost until it is made anew",
    }
    condition = csi_pb2.VolumeCondition(abnormal=health is not Health.ANSWERS, message=conditions[health])
    return csi_pb2.NodeGetVolumeStatsResponse(usage=_usage(usage), volume_condition=condition)


def _usage(usage: Usage | None) -> list[Any]:
    if usage is None:
        return []
    unit, size = csi_pb2.VolumeUsage, usage.block_bytes
    used_blocks, used_files = usage.blocks - usage.free_blocks, usage.files - usage.free_files
    return [
        unit(
            unit=unit.BYTES,
            total=usage.blocks * size,
            used=used_blocks * size,
            available=usage.free_blocks * size,
        ),
        unit(unit=unit.INODES, total=usage.files, used=used_files, available=usage.free_files),
    ]

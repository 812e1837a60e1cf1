"""Objects of Kubernetes itself that stand in one file with datasets: Secrets, ConfigMaps, volumes and claims.

A Secret's values never show in a text made of it; `values()` hands them out.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, SerializationInfo, field_serializer

from headrace.api.base import REVEAL, ApiModel, CrossFault, Flag, Opaque, Words
from headrace.api.dataset import AccessMode
from headrace.api.quantities import Quantity
from headrace.api.resource import Resource


def _check_base64(value: SecretStr) -> SecretStr:
    try:
        base64.b64decode("".join(value.get_secret_value().split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not base64: put plain text under stringData instead") from None
    return value


class Secret(Resource):
    """Values that must not be shown."""

    api_version: Literal["v1"] = Field(default="v1", description="Version of the API")
    kind: Literal["Secret"] = Field(default="Secret", description="Kind of the object")
    type: str | None = Field(default=None, description="Kind of content; Opaque when absent")
    data: dict[str, Annotated[SecretStr, AfterValidator(_check_base64)]] = Field(
        default_factory=dict, description="Values in base64"
    )
    string_data: dict[str, SecretStr] = Field(
        default_factory=dict, description="Values as plain text; they weigh more than data"
    )
    immutable: Flag | None = Field(default=None, description="The values may not be changed")

    def values(self) -> dict[str, bytes]:
        """All values, decoded."""
        coded = {key: base64.b64decode(value.get_secret_value()) for key, value in self.data.items()}
        return coded | {key: value.get_secret_value().encode() for key, value in self.string_data.items()}

    @field_serializer("data", "string_data")
    def _write(self, values: dict[str, SecretStr], info: SerializationInfo) -> dict[str, str]:
        reveal = bool(info.context and info.context.get(REVEAL))
        return {key: value.get_secret_value() if reveal else str(value) for key, value in values.items()}


class ConfigMap(Resource):
    """Texts for programs, such as hdfs-site.xml."""

    api_version: Literal["v1"] = Field(default="v1", description="Version of the API")
    kind: Literal["ConfigMap"] = Field(default="ConfigMap", description="Kind of the object")
    data: Words = Field(default_factory=dict, description="Texts")
    binary_data: Words = Field(default_factory=dict, description="Bytes in base64")
    immutable: Flag | None = Field(default=None, description="The texts may not be changed")


class NfsVolume(ApiModel):
    """A folder of an NFS server."""

    server: str = Field(min_length=1, description="Name or address of the server")
    path: str = Field(min_length=1, description="Folder that the server exports")
    read_only: Flag | None = Field(default=None, description="Nothing may be written")


class HostPathVolume(ApiModel):
    """A folder of the node."""

    path: str = Field(min_length=1, description="The folder")
    type: str | None = Field(default=None, description="Required kind of path")


class LocalVolume(ApiModel):
    """A disk of one node."""

    path: str = Field(min_length=1, description="Folder where it is mounted")
    fs_type: str | None = Field(default=None, description="File system of the disk")


class ClaimReference(ApiModel):
    """The claim that a volume belongs to."""

    name: str | None = Field(default=None, description="Name of the claim")
    namespace: str | None = Field(default=None, description="Its namespace")
    kind: str | None = Field(default=None, description="PersistentVolumeClaim")
    api_version: str | None = Field(default=None, description="Version of the API")
    uid: str | None = Field(default=None, description="Identity of the claim")
    resource_version: str | None = Field(default=None, description="Version of the claim")


class VolumeNodes(ApiModel):
    """Nodes on which the volume is there."""

    required: Opaque | None = Field(default=None, description="Selector of the nodes")


class PersistentVolumeSpec(ApiModel):
    """Source and properties of a volume."""

    capacity: dict[str, Quantity] = Field(default_factory=dict, description="Its size, under storage")
    volume_mode: Literal["Filesystem", "Block"] | None = Field(default=None, description="Files or a disk")
    access_modes: tuple[AccessMode, ...] = Field(default=(), description="Access modes")
    persistent_volume_reclaim_policy: Literal["Retain", "Delete", "Recycle"] | None = Field(
        default=None, description="Reclaim policy, for when the claim is deleted"
    )
    storage_class_name: str | None = Field(default=None, description="Class of storage")
    mount_options: tuple[str, ...] = Field(default=(), description="Options of the mount")
    claim_ref: ClaimReference | None = Field(default=None, description="The claim it belongs to")
    node_affinity: VolumeNodes | None = Field(default=None, description="Nodes on which it is there")
    nfs: NfsVolume | None = Field(default=None, description="A folder of an NFS server")
    host_path: HostPathVolume | None = Field(default=None, description="A folder of the node")
    local: LocalVolume | None = Field(default=None, description="A disk of one node")
    csi: Opaque | None = Field(default=None, description="A volume of a CSI driver")
    volume_attributes_class_name: str | None = Field(default=None, description="Class of attributes")

    def cross_faults(self) -> Iterator[CrossFault]:
        """Exactly one place."""
        sources = ("nfs", "host_path", "local", "csi")
        found = [name for name in sources if getattr(self, name) is not None]
        if len(found) != 1:
            yield CrossFault((), f"needs exactly one of nfs, hostPath, local and csi: {len(found)} are there")


class PersistentVolumeStatus(ApiModel):
    """Observed state of a volume."""

    phase: str | None = Field(default=None, description="Pending, Available, Bound, Released or Failed")
    message: str | None = Field(default=None, description="Reason, in a sentence")
    reason: str | None = Field(default=None, description="Reason, in a word")
    last_phase_transition_time: str | None = Field(
        default=None, description="Time at which phase last changed"
    )


class PersistentVolume(Resource):
    """Storage that claims may take."""

    api_version: Literal["v1"] = Field(default="v1", description="Version of the API")
    kind: Literal["PersistentVolume"] = Field(default="PersistentVolume", description="Kind of the object")
    spec: PersistentVolumeSpec = Field(description="Location of its data")
    status: PersistentVolumeStatus | None = Field(default=None, description="Observed state")


class ClaimResources(ApiModel):
    """Storage requested."""

    requests: dict[str, Quantity] = Field(default_factory=dict, description="At least so much, under storage")
    limits: dict[str, Quantity] = Field(default_factory=dict, description="At most so much")


class PersistentVolumeClaimSpec(ApiModel):
    """The storage that a claim requests."""

    access_modes: tuple[AccessMode, ...] = Field(default=(), description="Access modes")
    resources: ClaimResources | None = Field(default=None, description="Amount")
    storage_class_name: str | None = Field(default=None, description="Class of storage")
    volume_mode: Literal["Filesystem", "Block"] | None = Field(default=None, description="Files or a disk")
    volume_name: str | None = Field(default=None, description="The volume itself")
    selector: Opaque | None = Field(default=None, description="Labels of the volume")
    data_source: Opaque | None = Field(default=None, description="Initial content")
    data_source_ref: Opaque | None = Field(default=None, description="Initial content")
    volume_attributes_class_name: str | None = Field(default=None, description="Class of attributes")


class PersistentVolumeClaimStatus(ApiModel):
    """Observed state of a claim."""

    phase: str | None = Field(default=None, description="Pending, Bound or Lost")
    access_modes: tuple[AccessMode, ...] = Field(default=(), description="Modes of its volume")
    capacity: dict[str, Quantity] = Field(default_factory=dict, description="Size of its volume")
    conditions: tuple[Opaque, ...] = Field(default=(), description="Facts about a resize")


class PersistentVolumeClaim(Resource):
    """A volume that is asked for by a user of the namespace."""

    api_version: Literal["v1"] = Field(default="v1", description="Version of the API")
    kind: Literal["PersistentVolumeClaim"] = Field(
        default="PersistentVolumeClaim", description="Kind of the object"
    )
    spec: PersistentVolumeClaimSpec = Field(description="Requested storage")
    status: PersistentVolumeClaimStatus | None = Field(default=None, description="Observed state")

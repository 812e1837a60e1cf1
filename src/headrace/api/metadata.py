"""The name of an object and its origin: Kubernetes' ObjectMeta, and the labels a person wants on pods."""

from __future__ import annotations

from pydantic import Field

from headrace.api.base import ApiModel, Count, Flag, Long, Opaque, Words
from headrace.api.names import Namespace, ObjectName
from headrace.api.times import Time


class OwnerReference(ApiModel):
    """Another object; when it goes, this one goes."""

    api_version: str = Field(description="API version of the owner")
    kind: str = Field(description="Kind of the owner")
    name: str = Field(description="Name of the owner")
    uid: str = Field(description="Identity of the owner")
    controller: Flag | None = Field(default=None, description="The owner is the one that manages this object")
    block_owner_deletion: Flag | None = Field(
        default=None, description="The owner goes only after this object"
    )


class ObjectMeta(ApiModel):
    """Name, namespace, labels; the rest is kept by the API server."""

    name: ObjectName = Field(description="Name, unique for its kind in the namespace")
    namespace: Namespace | None = Field(default=None, description="Namespace; the caller's when absent")
    labels: Words = Field(default_factory=dict, description="Words to select objects by")
    annotations: Words = Field(default_factory=dict, description="Notes for programs and people")
    generate_name: str | None = Field(default=None, description="Prefix of which the server makes a name")
    uid: str | None = Field(default=None, description="Identity, given by the server")
    resource_version: str | None = Field(default=None, description="Version of the stored object")
    generation: Long | None = Field(default=None, description="Counts the changes of the spec")
    creation_timestamp: Time | None = Field(default=None, description="Time of creation")
    deletion_timestamp: Time | None = Field(
        default=None, description="Time at which the deletion was asked for"
    )
    deletion_grace_period_seconds: Count | None = Field(
        default=None, description="Seconds until it is removed"
    )
    finalizers: tuple[str, ...] = Field(
        default=(), description="Finalizers that must be removed before the object is deleted"
    )
    owner_references: tuple[OwnerReference, ...] = Field(default=(), description="Objects this one goes with")
    managed_fields: tuple[Opaque, ...] = Field(default=(), description="Managers of the fields")
    self_link: str | None = Field(default=None, description="Address of the object in old releases")


class PodMetadata(ApiModel):
    """Labels and annotations for pods that are made."""

    labels: Words = Field(default_factory=dict, description="Labels added to the pods")
    annotations: Words = Field(default_factory=dict, description="Annotations added to the pods")

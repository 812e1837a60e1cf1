"""Parts of a pod that a person may set: image, environment, volumes, resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from headrace.api.base import ApiModel, CrossFault, Flag, Opaque, Rule
from headrace.api.quantities import Quantity

ImagePullPolicy = Literal["", "Always", "IfNotPresent", "Never"]

Port = Annotated[int, Field(strict=True, ge=1, le=65535, json_schema_extra={"format": "int32"})]


class LocalReference(ApiModel):
    """An object of the same namespace."""

    name: str = Field(description="Name of the object")


class VersionSpec(ApiModel):
    """An image of the engine."""

    image: str | None = Field(default=None, description="Image without its tag")
    image_tag: str | None = Field(default=None, description="Tag of the image")
    image_pull_policy: ImagePullPolicy | None = Field(default=None, description="Image pull policy")


class Resources(ApiModel):
    """Resources of a container."""

    limits: dict[str, Quantity] = Field(default_factory=dict, description="The most it may use")
    requests: dict[str, Quantity] = Field(default_factory=dict, description="Resources reserved for it")
    claims: tuple[Opaque, ...] = Field(default=(), description="Resource claims of the pod that it uses")


class EnvVar(ApiModel):
    """A variable of the environment."""

    rules = (
        Rule(
            "!(has(self.value) && self.value.size() > 0 && has(self.valueFrom))",
            "only one of value and valueFrom may be set",
        ),
    )

    name: str = Field(min_length=1, description="Name of the variable")
    value: str | None = Field(default=None, description="Its value")
    value_from: Opaque | None = Field(
        default=None, description="Source of its value: a Secret, a ConfigMap, the pod"
    )

    def cross_faults(self) -> Iterator[CrossFault]:
        """One source of the value."""
        if self.value and self.value_from:
            yield CrossFault(("valueFrom",), "only one of value and valueFrom may be set")


class VolumeMount(ApiModel):
    """A volume's place in a container."""

    name: str = Field(min_length=1, description="Name of the volume")
    mount_path: str = Field(min_length=1, description="Path at which it appears in the container")
    read_only: Flag | None = Field(default=None, description="The container may only read it")
    recursive_read_only: str | None = Field(
        default=None, description="Handling of mounts below it: whether they are read-only, too"
    )
    sub_path: str | None = Field(default=None, description="The part of the volume that appears")
    sub_path_expr: str | None = Field(default=None, description="The same with variables of the container")
    mount_propagation: Literal["None", "HostToContainer", "Bidirectional"] | None = Field(
        default=None, description="Propagation of mounts between container and host"
    )


class Volume(ApiModel):
    """A volume of a pod: its name, and its source as Kubernetes has it."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(min_length=1, description="Name by which containers mount it")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = super().__get_pydantic_json_schema__(core, handler)
        schema.pop("additionalProperties", None)
        return schema | {"x-kubernetes-preserve-unknown-fields": True}

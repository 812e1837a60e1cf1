"""AlluxioRuntime: the engine behind a dataset, in the fields that users of Alluxio know."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.api.base import ApiModel, Count, Flag, Positive, Words
from headrace.api.containers import (
    ImagePullPolicy,
    LocalReference,
    Port,
    Resources,
    VersionSpec,
    Volume,
    VolumeMount,
)
from headrace.api.identities import User
from headrace.api.metadata import PodMetadata
from headrace.api.names import API_VERSION, ApiVersion
from headrace.api.resource import LABEL_NAME_RULE, Resource
from headrace.api.runtime_parts import (
    FuseCleanPolicy,
    InitUsers,
    NetworkMode,
    RuntimeManagement,
    RuntimeStatus,
)
from headrace.api.tiers import TieredStore


class AlluxioComponent(ApiModel):
    """One role of the runtime."""

    replicas: Positive | None = Field(default=None, description="Number of processes; 1 when absent")
    jvm_options: tuple[str, ...] = Field(default=(), description="Options of the Java machine")
    properties: Words = Field(default_factory=dict, description="Properties of the role")
    ports: dict[str, Port] = Field(default_factory=dict, description="Ports by name")
    resources: Resources | None = Field(default=None, description="Resources of its containers")
    env: Words = Field(default_factory=dict, description="Environment of its containers")
    enabled: Flag | None = Field(default=None, description="Enables the role; for apiGateway only")
    node_selector: Words = Field(default_factory=dict, description="Labels of the nodes it runs on")
    network_mode: NetworkMode | None = Field(
        default=None, description="Network of its pods; the host's when absent"
    )
    volume_mounts: tuple[VolumeMount, ...] = Field(default=(), description="Volumes in its containers")
    pod_metadata: PodMetadata | None = Field(default=None, description="Labels and annotations of its pods")
    image_pull_secrets: tuple[LocalReference, ...] = Field(
        default=(), description="Secrets for pulling images"
    )


class AlluxioFuse(ApiModel):
    """The mount process on each node."""

    image: str | None = Field(default=None, description="Image without its tag")
    image_tag: str | None = Field(default=None, description="Tag of the image")
    image_pull_policy: ImagePullPolicy | None = Field(default=None, description="Image pull policy")
    image_pull_secrets: tuple[LocalReference, ...] = Field(
        default=(), description="Secrets for pulling images"
    )
    jvm_options: tuple[str, ...] = Field(default=(), description="Options of the Java machine")
    properties: Words = Field(default_factory=dict, description="Properties of the mount process")
    env: Words = Field(default_factory=dict, description="Environment of its container")
    resources: Resources | None = Field(default=None, description="Resources of its container")
    args: tuple[str, ...] = Field(default=(), description="Arguments of the mount process")
    node_selector: Words = Field(default_factory=dict, description="Labels of the nodes it may run on")
    clean_policy: FuseCleanPolicy | None = Field(
        default=None, description="Policy of removal from a node; OnRuntimeDeleted when absent"
    )
    network_mode: NetworkMode | None = Field(
        default=None, description="Network of its pod; the host's when absent"
    )
    volume_mounts: tuple[VolumeMount, ...] = Field(default=(), description="Volumes in its container")
    pod_metadata: PodMetadata | None = Field(default=None, description="Labels and annotations of its pod")


class DataPolicy(ApiModel):
    """Replicas and pinning of blocks."""

    replicas: Count | None = Field(default=None, description="Workers that keep each block; 1 when absent")
    pin: Flag | None = Field(default=None, description="Blocks that were loaded are never evicted")


class AlluxioRuntimeSpec(ApiModel):
    """Caching of a dataset's data."""

    alluxio_version: VersionSpec | None = Field(default=None, description="Image of the engine")
    master: AlluxioComponent | None = Field(default=None, description="The master")
    job_master: AlluxioComponent | None = Field(
        default=None, description="The master of Alluxio's job service"
    )
    worker: AlluxioComponent | None = Field(default=None, description="The workers, which keep blocks")
    job_worker: AlluxioComponent | None = Field(
        default=None, description="The workers of Alluxio's job service"
    )
    api_gateway: AlluxioComponent | None = Field(
        default=None, description="The gateway for programs that speak HTTP"
    )
    init_users: InitUsers | None = Field(default=None, description="The container that makes users")
    fuse: AlluxioFuse | None = Field(default=None, description="The mount process on each node")
    properties: Words = Field(default_factory=dict, description="Properties of all roles")
    jvm_options: tuple[str, ...] = Field(default=(), description="Options of the Java machines of all roles")
    tieredstore: TieredStore | None = Field(default=None, description="Levels of each worker's cache")
    data: DataPolicy | None = Field(default=None, description="Replicas and pinning of blocks")
    replicas: Count = Field(default=1, description="Number of workers")
    run_as: User | None = Field(default=None, description="User and group of all processes")
    disable_prometheus: Flag | None = Field(default=None, description="Offer no metrics")
    hadoop_config: str | None = Field(
        default=None, description="ConfigMap with hdfs-site.xml and core-site.xml"
    )
    volumes: tuple[Volume, ...] = Field(default=(), description="Volumes for volumeMounts")
    pod_metadata: PodMetadata | None = Field(default=None, description="Labels and annotations of all pods")
    management: RuntimeManagement | None = Field(default=None, description="Management of the runtime")
    image_pull_secrets: tuple[LocalReference, ...] = Field(
        default=(), description="Secrets for pulling images"
    )


class AlluxioRuntime(Resource):
    """The cache of the dataset of the same name, in the fields of Alluxio."""

    named_as_label = True
    rules = (LABEL_NAME_RULE,)

    api_version: ApiVersion = Field(default=API_VERSION, description="Version of the API")
    kind: Literal["AlluxioRuntime"] = Field(default="AlluxioRuntime", description="Kind of the object")
    spec: AlluxioRuntimeSpec = Field(default_factory=AlluxioRuntimeSpec, description="Caching of the data")
    status: RuntimeStatus | None = Field(default=None, description="Observed state")

"""JindoRuntime: the engine behind a dataset, in the fields that users of JindoFS know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from headrace.api.base import ApiModel, Count, CrossFault, Flag, Positive, Rule, Words
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
    LABELS_RULE,
    CleanCachePolicy,
    ClientMetrics,
    FuseCleanPolicy,
    NetworkMode,
    RuntimeStatus,
    deprecated_labels,
)
from headrace.api.scheduling import Toleration
from headrace.api.tiers import TieredStore


class JindoComponent(ApiModel):
    """One role of the runtime."""

    rules = (LABELS_RULE,)

    replicas: Positive | None = Field(default=None, description="Number of processes; 1 when absent")
    properties: Words = Field(default_factory=dict, description="Properties of the role")
    ports: dict[str, Port] = Field(default_factory=dict, description="Ports by name")
    resources: Resources | None = Field(default=None, description="Resources of its containers")
    env: Words = Field(default_factory=dict, description="Environment of its containers")
    node_selector: Words = Field(default_factory=dict, description="Labels of the nodes it runs on")
    tolerations: tuple[Toleration, ...] = Field(default=(), description="Taints that its pods put up with")
    labels: Words = Field(
        default_factory=dict, description="Labels of its pods; replaced by podMetadata.labels"
    )
    pod_metadata: PodMetadata | None = Field(default=None, description="Labels and annotations of its pods")
    disabled: Flag | None = Field(default=None, description="The role does not run")
    volume_mounts: tuple[VolumeMount, ...] = Field(default=(), description="Volumes in its containers")
    image_pull_secrets: tuple[LocalReference, ...] = Field(
        default=(), description="Secrets for pulling images"
    )

    def cross_faults(self) -> Iterator[CrossFault]:
        """Labels in one place."""
        yield from deprecated_labels(self.labels, self.pod_metadata.labels if self.pod_metadata else None)


class JindoFuse(ApiModel):
    """The mount process on each node."""

    rules = (LABELS_RULE,)

    image: str | None = Field(default=None, description="Image without its tag")
    image_tag: str | None = Field(default=None, description="Tag of the image")
    image_pull_policy: ImagePullPolicy | None = Field(default=None, description="Image pull policy")
    image_pull_secrets: tuple[LocalReference, ...] = Field(
        default=(), description="Secrets for pulling images"
    )
    properties: Words = Field(default_factory=dict, description="Properties of the mount process")
    env: Words = Field(default_factory=dict, description="Environment of its container")
    resources: Resources | None = Field(default=None, description="Resources of its container")
    args: tuple[str, ...] = Field(default=(), description="Arguments of the mount process")
    node_selector: Words = Field(default_factory=dict, description="Labels of the nodes it may run on")
    tolerations: tuple[Toleration, ...] = Field(default=(), description="Taints that its pod puts up with")
    labels: Words = Field(
        default_factory=dict, description="Labels of its pod; replaced by podMetadata.labels"
    )
    pod_metadata: PodMetadata | None = Field(default=None, description="Labels and annotations of its pod")
    clean_policy: FuseCleanPolicy | None = Field(
        default=None, description="Policy of removal from a node; OnRuntimeDeleted when absent"
    )
    disabled: Flag | None = Field(default=None, description="No mount process runs")
    log_config: Words = Field(default_factory=dict, description="Properties of its log")
    metrics: ClientMetrics | None = Field(default=None, description="Metrics of the mount process")

    def cross_faults(self) -> Iterator[CrossFault]:
        """Labels in one place."""
        yield from deprecated_labels(self.labels, self.pod_metadata.labels if self.pod_metadata else None)


class JindoRuntimeSpec(ApiModel):
    """Caching of a dataset's data."""

    rules = (
        LABELS_RULE,
        Rule(
            "!has(self.master) || !has(self.master.replicas) || self.master.replicas in [1, 3]",
            "master.replicas must be 1 or 3",
        ),
    )

    jindo_version: VersionSpec | None = Field(default=None, description="Image of the engine")
    master: JindoComponent | None = Field(default=None, description="The master")
    worker: JindoComponent | None = Field(default=None, description="The workers, which keep blocks")
    fuse: JindoFuse | None = Field(default=None, description="The mount process on each node")
    properties: Words = Field(default_factory=dict, description="Properties of all roles")
    tieredstore: TieredStore | None = Field(default=None, description="Levels of each worker's cache")
    replicas: Count = Field(default=1, description="Number of workers")
    run_as: User | None = Field(default=None, description="User and group of all processes")
    user: str | None = Field(default=None, description="User that all processes run as, by name")
    secret: str | None = Field(default=None, description="Secret with credentials for all origins")
    hadoop_config: str | None = Field(
        default=None, description="ConfigMap with hdfs-site.xml and core-site.xml"
    )
    labels: Words = Field(
        default_factory=dict, description="Labels of all pods; replaced by podMetadata.labels"
    )
    pod_metadata: PodMetadata | None = Field(default=None, description="Labels and annotations of all pods")
    volumes: tuple[Volume, ...] = Field(default=(), description="Volumes for volumeMounts")
    image_pull_secrets: tuple[LocalReference, ...] = Field(
        default=(), description="Secrets for pulling images"
    )
    log_config: Words = Field(default_factory=dict, description="Properties of the log of master and workers")
    networkmode: NetworkMode | None = Field(
        default=None, description="Network of its pods; the host's when absent"
    )
    clean_cache_policy: CleanCachePolicy | None = Field(default=None, description="Way to empty the cache")

    def cross_faults(self) -> Iterator[CrossFault]:
        """Labels in one place; masters that can agree."""
        yield from deprecated_labels(self.labels, self.pod_metadata.labels if self.pod_metadata else None)
        if self.master and self.master.replicas not in {None, 1, 3}:
            yield CrossFault(("master", "replicas"), f"{self.master.replicas} is not allowed; allowed: 1, 3")


class JindoRuntime(Resource):
    """The cache of the dataset of the same name, in the fields of JindoFS."""

    named_as_label = True
    rules = (LABEL_NAME_RULE,)

    api_version: ApiVersion = Field(default=API_VERSION, description="Version of the API")
    kind: Literal["JindoRuntime"] = Field(default="JindoRuntime", description="Kind of the object")
    spec: JindoRuntimeSpec = Field(default_factory=JindoRuntimeSpec, description="Caching of the data")
    status: RuntimeStatus | None = Field(default=None, description="Observed state")

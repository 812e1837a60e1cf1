"""The common parts of runtimes of all kinds: policies, identities of pods, and their status."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from pydantic import Field

from headrace.api.base import ApiModel, Count, CrossFault, Flag, Long, Rule, Words
from headrace.api.conditions import ONE_A_TYPE, Condition
from headrace.api.containers import EnvVar, Resources, VersionSpec
from headrace.api.mounts import Mount
from headrace.api.scheduling import NodeAffinity
from headrace.api.times import Time


class NetworkMode(StrEnum):
    """The network of pods."""

    HOST = "HostNetwork"
    DEFAULT = ""
    CONTAINER = "ContainerNetwork"


class FuseCleanPolicy(StrEnum):
    """The policy of removing the mount process from a node."""

    NONE = ""
    ON_RUNTIME_DELETED = "OnRuntimeDeleted"
    ON_DEMAND = "OnDemand"
    ON_FUSE_CHANGED = "OnFuseChanged"


class RuntimePhase(StrEnum):
    """Readiness of a role's processes."""

    NONE = ""
    NOT_READY = "NotReady"
    PARTIAL_READY = "PartialReady"
    READY = "Ready"


class ScrapeTarget(StrEnum):
    """The mount processes that are scraped for metrics."""

    MOUNT_POD = "MountPod"
    SIDECAR = "Sidecar"
    ALL = "All"
    NONE = "None"


class CleanCachePolicy(ApiModel):
    """Ways to empty the cache when the runtime goes."""

    grace_period_seconds: Count = Field(default=60, description="Seconds that one try may take")
    max_retry_attempts: Count = Field(default=3, description="Number of retries")


class MetadataSyncPolicy(ApiModel):
    """The times at which the list of files is taken."""

    auto_sync: Flag = Field(default=True, description="Take the list by itself when the dataset is bound")


class RuntimeManagement(ApiModel):
    """Management of the runtime."""

    clean_cache_policy: CleanCachePolicy | None = Field(default=None, description="Way to empty the cache")
    metadata_sync_policy: MetadataSyncPolicy | None = Field(
        default=None, description="Times at which the list of files is taken"
    )


class InitUsers(VersionSpec):
    """The container that makes users before others start."""

    env: tuple[EnvVar, ...] = Field(default=(), max_length=1024, description="Environment of the container")
    resources: Resources | None = Field(default=None, description="Resources of the container")


class ClientMetrics(ApiModel):
    """Metrics of mount processes."""

    enabled: Flag | None = Field(default=None, description="Offer metrics")
    scrape_target: ScrapeTarget | None = Field(
        default=None, description="Mount processes to scrape; None when absent"
    )


class ApiGatewayStatus(ApiModel):
    """The gateway for programs that speak HTTP."""

    endpoint: str | None = Field(default=None, description="Its address")


class RuntimeStatus(ApiModel):
    """Observed state of a runtime."""

    value_file: str | None = Field(default=None, description="ConfigMap with what was applied")
    master_phase: RuntimePhase | None = Field(default=None, description="Number of masters that are ready")
    worker_phase: RuntimePhase | None = Field(default=None, description="Number of workers that are ready")
    fuse_phase: RuntimePhase | None = Field(
        default=None, description="Number of mount processes that are ready"
    )
    master_reason: str | None = Field(default=None, description="Reason of masterPhase")
    worker_reason: str | None = Field(default=None, description="Reason of workerPhase")
    fuse_reason: str | None = Field(default=None, description="Reason of fusePhase")
    desired_master_number_scheduled: Count | None = Field(
        default=None, description="Masters that should be there"
    )
    current_master_number_scheduled: Count | None = Field(default=None, description="Masters that are there")
    master_number_ready: Count | None = Field(default=None, description="Masters that are ready")
    desired_worker_number_scheduled: Count | None = Field(
        default=None, description="Workers that should be there"
    )
    current_worker_number_scheduled: Count | None = Field(default=None, description="Workers that are there")
    worker_number_ready: Count | None = Field(default=None, description="Workers that are ready")
    worker_number_available: Count | None = Field(
        default=None, description="Workers that are ready for a while"
    )
    worker_number_unavailable: Count | None = Field(
        default=None, description="Workers that are not available"
    )
    desired_fuse_number_scheduled: Count | None = Field(
        default=None, description="Mount processes that should be there"
    )
    current_fuse_number_scheduled: Count | None = Field(
        default=None, description="Mount processes that are there"
    )
    fuse_number_ready: Count | None = Field(default=None, description="Mount processes that are ready")
    fuse_number_available: Count | None = Field(
        default=None, description="Mount processes that are ready for a while"
    )
    fuse_number_unavailable: Count | None = Field(
        default=None, description="Mount processes that are not available"
    )
    setup_duration: str | None = Field(default=None, description="Time from creation to ready, such as 1m12s")
    conditions: tuple[Condition, ...] = Field(
        default=(), json_schema_extra=ONE_A_TYPE, description="Facts, one a type"
    )
    cache_states: Words = Field(default_factory=dict, description="The dataset's cacheStates")
    selector: str | None = Field(default=None, description="Labels of the workers' pods, for autoscalers")
    api_gateway: ApiGatewayStatus | None = Field(
        default=None, description="The gateway for programs that speak HTTP"
    )
    mount_time: Time | None = Field(default=None, description="Time at which the origins were last mounted")
    mounts: tuple[Mount, ...] = Field(default=(), description="Origins that are mounted now")
    cache_affinity: NodeAffinity | None = Field(default=None, description="Nodes that hold cached data")
    observed_generation: Long | None = Field(
        default=None, description="Generation of the spec that this status is about"
    )


def deprecated_labels(labels: Words, pod_labels: Words | None) -> Iterator[CrossFault]:
    """Labels in their old and their new place at once."""
    if labels and pod_labels:
        yield CrossFault(("labels",), "cannot stand beside podMetadata.labels: write all labels there")


LABELS_RULE = Rule(
    "!(has(self.labels) && self.labels.size() > 0 && "
    "has(self.podMetadata) && has(self.podMetadata.labels) && self.podMetadata.labels.size() > 0)",
    "labels cannot stand beside podMetadata.labels",
)

"""DataMigrate: copies data between a dataset and external storage, or between two datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from headrace.api.base import ApiModel, Count, CrossFault, Flag, Positive, Rule, Words
from headrace.api.containers import ImagePullPolicy, Resources
from headrace.api.metadata import PodMetadata
from headrace.api.mounts import Address, EncryptOption, TreePath, repeated_names
from headrace.api.names import API_VERSION, ApiVersion, Namespace, ObjectName
from headrace.api.operations import (
    CRON_RULE,
    POLICY_FIXED,
    OperationStatus,
    Policy,
    RunAfter,
    run_after_faults,
    schedule_faults,
)
from headrace.api.resource import Resource
from headrace.api.schedules import Cron
from headrace.api.scheduling import Affinity, Toleration


class MigratedDataset(ApiModel):
    """A dataset, or a part of it."""

    name: ObjectName = Field(description="Name of the dataset")
    namespace: Namespace = Field(description="Its namespace")
    path: TreePath | None = Field(default=None, description="A folder of it; all of it when absent")


class ExternalStorage(ApiModel):
    """Storage that is no dataset."""

    uri: Address = Field(description="Address of the data, such as oss://bucket/prefix")
    encrypt_options: Annotated[tuple[EncryptOption, ...], Field(max_length=64)] = Field(
        default=(), description="Options whose values are in Secrets"
    )

    def cross_faults(self) -> Iterator[CrossFault]:
        """Each secret option once."""
        yield from repeated_names(self.encrypt_options, "encryptOptions")


class DataPlace(ApiModel):
    """One side of a migration: a dataset or external storage."""

    rules = (
        Rule(
            "has(self.dataset) != has(self.externalStorage)",
            "exactly one of dataset and externalStorage is needed",
        ),
    )

    dataset: MigratedDataset | None = Field(default=None, description="A dataset")
    external_storage: ExternalStorage | None = Field(default=None, description="Storage that is no dataset")

    def cross_faults(self) -> Iterator[CrossFault]:
        """Exactly one of the two."""
        if (self.dataset is None) == (self.external_storage is None):
            found = "both are there" if self.dataset else "neither is there"
            yield CrossFault((), f"needs exactly one of dataset and externalStorage: {found}")


class DataMigrateSpec(ApiModel):
    """The source, target, schedule and options of a copy."""

    rules = (
        CRON_RULE,
        POLICY_FIXED,
        Rule("has(self.from.dataset) || has(self.to.dataset)", "one side at least must be a dataset"),
    )

    source: DataPlace = Field(
        validation_alias="from", serialization_alias="from", description="Source of the data"
    )
    to: DataPlace = Field(description="Target of the copy")
    image: str | None = Field(default=None, description="Image without its tag")
    image_tag: str | None = Field(default=None, description="Tag of the image")
    image_pull_policy: ImagePullPolicy | None = Field(default=None, description="Image pull policy")
    block: Flag = Field(default=False, description="Nobody may use the dataset while data is copied")
    runtime_type: str | None = Field(
        default=None, description="Engine that copies; the dataset's when absent"
    )
    options: Words = Field(default_factory=dict, description="Options of the engine")
    policy: Policy = Field(default=Policy.ONCE, description="Run policy: once, or on a schedule")
    schedule: Cron | None = Field(default=None, description="Cron schedule, for policy Cron")
    pod_metadata: PodMetadata | None = Field(default=None, description="Labels and annotations of its pods")
    affinity: Affinity | None = Field(default=None, description="Affinity of its pods")
    tolerations: tuple[Toleration, ...] = Field(default=(), description="Taints that its pods put up with")
    node_selector: Words = Field(default_factory=dict, description="Labels of the nodes it runs on")
    scheduler_name: str | None = Field(default=None, description="Scheduler of its pods")
    run_after: RunAfter | None = Field(default=None, description="An operation that must be complete before")
    ttl_seconds_after_finished: Count | None = Field(
        default=None, description="Seconds after which the finished object is deleted, for policy Once"
    )
    resources: Resources | None = Field(default=None, description="Resources of its containers")
    parallelism: Positive = Field(default=1, description="Processes that copy at the same time")
    parallel_options: Words = Field(default_factory=dict, description="Options for several processes")

    def cross_faults(self) -> Iterator[CrossFault]:
        """A schedule when there must be one; a dataset on one side at least."""
        yield from schedule_faults(self.policy, self.schedule)
        if self.source.dataset is None and self.to.dataset is None:
            yield CrossFault((), "needs a dataset in from or in to: two external storages have no engine")


class DataMigrate(Resource):
    """Copies data between a dataset and external storage, or between two datasets."""

    api_version: ApiVersion = Field(default=API_VERSION, description="Version of the API")
    kind: Literal["DataMigrate"] = Field(default="DataMigrate", description="Kind of the object")
    spec: DataMigrateSpec = Field(description="Source, target, schedule and options of the copy")
    status: OperationStatus | None = Field(default=None, description="Observed state")

    def cross_faults(self) -> Iterator[CrossFault]:
        """No wait for itself."""
        yield from super().cross_faults()
        yield from run_after_faults(self.kind, self.name, self.namespace, self.spec.run_after)

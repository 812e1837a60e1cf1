"""The Dataset: a name for origins mounted in one tree, and what is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from headrace.api.base import ApiModel, Count, CrossFault, Long, Rule, Words
from headrace.api.conditions import ONE_A_TYPE, DatasetCondition
from headrace.api.identities import User
from headrace.api.mounts import EncryptOption, Mount, repeated_names, repeated_places, scheme_of
from headrace.api.names import API_VERSION, ApiVersion, check_namespace
from headrace.api.resource import LABEL_NAME_RULE, Resource
from headrace.api.scheduling import CacheAffinity, Toleration


class DatasetPhase(StrEnum):
    """The phase of a dataset."""

    NONE = ""
    PENDING = "Pending"
    BOUND = "Bound"
    NOT_BOUND = "NotBound"
    FAILED = "Failed"
    UPDATING = "Updating"
    DATA_MIGRATING = "DataMigrating"
    TERMINATING = "Terminating"


class Placement(StrEnum):
    """Exclusive or shared use of a node by the workers of datasets."""

    EXCLUSIVE = "Exclusive"
    DEFAULT = ""
    SHARED = "Shared"


class AccessMode(StrEnum):
    """The access modes of the volume, in Kubernetes' words."""

    READ_ONLY_MANY = "ReadOnlyMany"
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class BoundRuntime(ApiModel):
    """A runtime that serves a dataset."""

    name: str | None = Field(default=None, description="Name of the runtime")
    namespace: str | None = Field(default=None, description="Namespace of the runtime")
    category: str | None = Field(default=None, description="Its use for the dataset: Accelerate")
    type: str | None = Field(default=None, description="Kind of runtime: alluxio, jindo")
    master_replicas: Count | None = Field(default=None, description="Number of its masters")


def check_local_or_claim(address: str) -> str:
    """A place that is a folder of a node, or in a volume."""
    if scheme_of(address) not in {"local", "pvc"}:
        raise ValueError("is no place for a backup: write local:///folder or pvc://claim/folder")
    if ".." in address.split("/"):
        raise ValueError("may not hold '..'")
    return address


BackupPlace = Annotated[str, Field(max_length=4096), AfterValidator(check_local_or_claim)]
"""`local:///folder` or `pvc://claim/folder`."""


class DataRestoreLocation(ApiModel):
    """A backup to start from."""

    path: BackupPlace | None = Field(
        default=None, description="Location of the backup: local:///folder or pvc://claim/folder"
    )
    node_name: str | None = Field(default=None, description="Node that holds it, for local://")


EVERY_NAMESPACE = "*"


def check_sharing(word: str) -> str:
    """A namespace, or `*` for all of them."""
    return word if word == EVERY_NAMESPACE else check_namespace(word)


Sharing = Annotated[
    str,
    Field(max_length=63),
    AfterValidator(check_sharing),
    WithJsonSchema({"type": "string", "maxLength": 63, "pattern": r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$"}),
]
"""Who may read a dataset by a reference."""


class DatasetSpec(ApiModel):
    """The declaration of a dataset: its mounts and options."""

    rules = (
        Rule(
            "!has(self.mounts) || self.mounts.all(m, !has(m.path) || "
            "self.mounts.exists_one(n, has(n.path) && n.path == m.path))",
            "each mount needs a path of its own",
        ),
    )

    mounts: Annotated[tuple[Mount, ...], Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="Origins of the data, merged in one tree"
    )
    owner: User | None = Field(default=None, description="Owner of the files as users see them")
    node_affinity: CacheAffinity | None = Field(default=None, description="Nodes on which data may be cached")
    tolerations: tuple[Toleration, ...] = Field(
        default=(), description="Taints that master and workers put up with"
    )
    access_modes: tuple[AccessMode, ...] = Field(
        default=(),
        description="Access modes of the volume; [ReadWriteMany] when absent. Files are read-only whatever it says",
    )
    runtimes: tuple[BoundRuntime, ...] = Field(
        default=(), description="Runtimes; a runtime binds by its name, so this has no effect"
    )
    placement: Placement | None = Field(
        default=None,
        description="Exclusive (default): its nodes hold workers of no other dataset, by the chart's policy of none "
        "in its namespace; Shared: of several",
    )
    data_restore_location: DataRestoreLocation | None = Field(
        default=None, description="A backup to start from"
    )
    shared_options: Words = Field(
        default_factory=dict, description="Options of every mount; a mount's own weigh more"
    )
    shared_encrypt_options: Annotated[tuple[EncryptOption, ...], Field(max_length=64)] = Field(
        default=(), description="Secret options of every mount; a mount's own weigh more"
    )

    shared_with: Annotated[tuple[Sharing, ...], Field(max_length=256)] = Field(
        default=(),
        description="Other namespaces whose datasets may read this one by dataset://; * is all of them, "
        "and none the default",
    )

    def cross_faults(self) -> Iterator[CrossFault]:
        """Mounts beside each other; options once."""
        yield from repeated_places(self.mounts or ())
        yield from repeated_names(self.shared_encrypt_options, "sharedEncryptOptions")
        location = self.data_restore_location
        if location and location.path and scheme_of(location.path) == "local" and not location.node_name:
            yield CrossFault(
                ("dataRestoreLocation", "nodeName"), "is missing: a backup in local:// is on one node"
            )
        if len(set(self.shared_with)) != len(self.shared_with):
            yield CrossFault(("sharedWith",), "names a namespace twice")
        if len(set(self.access_modes)) != len(self.access_modes):
            yield CrossFault(("accessModes",), "names a mode twice")


class HcfsStatus(ApiModel):
    """Addresses by which Hadoop programs reach the dataset."""

    endpoint: str | None = Field(default=None, description="Address, or N/A")
    underlayer_file_system_version: str | None = Field(
        default=None, description="Version of the protocol behind it"
    )


class DatasetStatus(ApiModel):
    """Observed state of a dataset."""

    mounts: tuple[Mount, ...] = Field(default=(), description="Origins that are mounted now")
    ufs_total: str | None = Field(default=None, description="Size of the data at its origins")
    file_num: str | None = Field(default=None, description="Number of files")
    phase: DatasetPhase | None = Field(default=None, description="Phase of the dataset")
    runtimes: tuple[BoundRuntime, ...] = Field(default=(), description="Runtimes that serve it")
    conditions: tuple[DatasetCondition, ...] = Field(
        default=(), json_schema_extra=ONE_A_TYPE, description="Facts, one a type"
    )
    cache_states: Words = Field(
        default_factory=dict,
        description="cached, cacheCapacity, cachedPercentage, cacheHitRatio, and ratios of hits and throughput",
    )
    hcfs: HcfsStatus | None = Field(default=None, description="Addresses for Hadoop programs")
    operation_ref: Words = Field(
        default_factory=dict, description="Operations that run: kind of operation to names, parted by commas"
    )
    data_load_ref: str | None = Field(default=None, description="Replaced by operationRef")
    data_backup_ref: str | None = Field(default=None, description="Replaced by operationRef")
    dataset_ref: tuple[str, ...] = Field(
        default=(), description="Datasets, as namespace/name, that refer to this one"
    )
    observed_generation: Long | None = Field(
        default=None, description="Generation of the spec that this status is about"
    )


class Dataset(Resource):
    """A name for data of one or more origins, served as one tree of files."""

    named_as_label = True
    rules = (LABEL_NAME_RULE,)

    api_version: ApiVersion = Field(default=API_VERSION, description="Version of the API")
    kind: Literal["Dataset"] = Field(default="Dataset", description="Kind of the object")
    spec: DatasetSpec = Field(default_factory=DatasetSpec, description="Mounts and options of the dataset")
    status: DatasetStatus | None = Field(default=None, description="Observed state")

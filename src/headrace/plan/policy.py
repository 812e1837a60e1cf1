"""The administrator's policy: what those who declare datasets may ask of nodes and pods. One value, from the chart.

A right to create datasets is no right to more. Only the listed settings are allowed; all else is refused, and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, ValidationError

from headrace.api.base import ApiModel, CrossFault
from headrace.api.explaining import explain
from headrace.api.names import ObjectName
from headrace.api.quantities import Quantity
from headrace.errors import ConfigError
from headrace.plan.roles import RoleKind
from headrace.settings.sizes import Quota, parse_quota


def _check_folder(path: str) -> str:
    if {".", ".."} & set(path.split("/")):
        raise ValueError("may hold neither '.' nor '..'")
    return path


Folder = Annotated[str, Field(pattern=r"^(/[^/:,\s]+)+$", max_length=1024), AfterValidator(_check_folder)]
"""An absolute path, as `/mnt/data`."""

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)]
Domain = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
TaintKey = Annotated[
    str,
    Field(
        pattern=r"^(\*|([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$",
        max_length=317,
    ),
]
"""A key of taints; `*` for all."""

VolumeKind = Annotated[str, Field(pattern=r"^[a-z][A-Za-z]*$", max_length=64)]

_OWN_FOLDERS = ("mounts", "state", "keeper")
"""What lies in the folder of each node that the chart calls nodeFolder."""

Amounts = dict[str, Quantity]

_MASTER: Amounts = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "64Gi"}
_WORKER: Amounts = {"cpu": "32", "memory": "512Gi", "ephemeral-storage": "4Ti"}
_MOUNT: Amounts = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "16Gi"}


class LargestPods(ApiModel):
    """The most that a pod of each role may ask for, by resource. A resource that is not named is refused."""

    master: Amounts = Field(default=_MASTER, description="The master")
    worker: Amounts = Field(default=_WORKER, description="A worker")
    mount: Amounts = Field(default=_MOUNT, description="A mount")

    def of(self, kind: RoleKind) -> Mapping[str, int | str]:
        """Those of one role."""
        return {RoleKind.MASTER: self.master, RoleKind.WORKER: self.worker, RoleKind.MOUNT: self.mount}[kind]


def _limit(value: Any) -> Quota:
    if isinstance(value, Quota):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("is not a size")
    return parse_quota(str(value))


Limit = Annotated[Quota, PlainValidator(_limit), PlainSerializer(str, return_type=str)]
"""A size, or `50%` of a node's memory."""


class CacheLimits(ApiModel):
    """The most that caches may have of a node, by what they lie in; without a limit where there is none."""

    mem: Limit | None = Field(default=None, alias="MEM", description="Levels of memory")
    ssd: Limit | None = Field(default=None, alias="SSD", description="Levels on SSD")
    hdd: Limit | None = Field(default=None, alias="HDD", description="Levels on HDD")

    def of(self, medium: str, memory_bytes: int | None) -> int | None:
        """The limit in bytes of a node with so much memory; `None` for none."""
        limit = {"MEM": self.mem, "SSD": self.ssd, "HDD": self.hdd}[medium]
        if limit is None or (limit.share is not None and memory_bytes is None):
            return None
        return limit.resolve(memory_bytes or 0)

    def cross_faults(self) -> Iterator[CrossFault]:
        """Of a disk nobody knows the size before a worker runs on it."""
        for name, limit in (("SSD", self.ssd), ("HDD", self.hdd)):
            if limit is not None and limit.share is not None:
                yield CrossFault(
                    (name,), "is a share, and the size of a disk is not known: write a size, such as 1Ti"
                )


class Policy(ApiModel):
    """The allowed settings. The defaults are those of the chart."""

    cache_folders: tuple[Folder, ...] = Field(
        default=(
            *("/run/headrace/memory", "/dev/shm"),  # noqa: S108 - every node has it
            *("/var/lib/headrace/ssd", "/var/lib/headrace/hdd"),
            *("/var/lib/docker/alluxio", "/var/lib/docker/jindo"),
        ),
        description="Folders of the nodes in which datasets have their caches, as NAMESPACE/NAME",
    )
    backup_folders: tuple[Folder, ...] = Field(
        default=("/var/lib/headrace/backups",),
        description="Folders of the nodes in which backups are kept, below the name of their namespace",
    )

    environment: tuple[VariableName, ...] = Field(
        default=("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "TZ"),
        description="Variables that a runtime may set for master and workers",
    )
    volumes: tuple[VolumeKind, ...] = Field(
        default=("configMap", "secret", "persistentVolumeClaim"),
        description="Kinds of volumes that a runtime may give to master and workers",
    )
    volume_paths: tuple[Folder, ...] = Field(
        default=("/mnt",), description="Folders of their containers below which such volumes may appear"
    )
    pod_metadata: tuple[Domain, ...] = Field(
        default=(),
        description="Domains of labels and annotations for pods; keys without a domain are allowed",
    )
    tolerations: tuple[TaintKey, ...] = Field(
        default=("nvidia.com/gpu", "amd.com/gpu"),
        description="Keys of taints that pods of tenants may put up with; * for all",
    )
    largest_pods: LargestPods = Field(
        default_factory=LargestPods, description="The most that pods may ask for"
    )
    mount_priority_class: Annotated[str, Field(max_length=253)] = Field(
        default="", description="Priority class of mounts; none when empty"
    )
    cache_per_node: CacheLimits = Field(
        default_factory=lambda: CacheLimits(MEM=Quota(share=0.5)),
        description="The most that the quotas of all datasets' workers on a node may be together",
    )
    namespace_cache_per_node: CacheLimits = Field(
        default_factory=CacheLimits, description="The same of the datasets of one namespace"
    )
    exclusive_placement: Literal["Namespace", "Cluster"] = Field(
        default="Namespace",
        description="Workers that placement Exclusive keeps off a dataset's nodes: those of its namespace, or all",
    )
    process_pods: Literal["Baseline", "Any"] = Field(
        default="Baseline", description="Limits for pods of a DataProcess: Pod Security's baseline, or any"
    )
    service_accounts: tuple[ObjectName, ...] = Field(
        default=(), description="Accounts that a DataProcess may act as, beside `default`"
    )

    def cross_faults(self) -> Iterator[CrossFault]:
        """Folders apart: what is made in one has a name of its own there, and in no other."""
        named = [
            (name, folder)
            for name, folders in (
                ("cacheFolders", self.cache_folders),
                ("backupFolders", self.backup_folders),
            )
            for folder in folders
        ]
        for name, folder in named:
            for _, other in named:
                if folder != other and is_in(folder, other):
                    yield CrossFault((name,), f"{folder} lies in {other}, which is named, too")

    def check_beside(self, node_folder: str) -> None:
        """Raises `ConfigError` where caches or backups would lie among what Headrace keeps on nodes itself."""
        own = [f"{node_folder}/{name}" for name in _OWN_FOLDERS]
        for folder in (*self.cache_folders, *self.backup_folders):
            if is_in(node_folder, folder) or any(is_in(folder, each) for each in own):
                raise ConfigError.of(
                    f"policy: {folder} holds, or is among, what Headrace keeps in {node_folder} (nodeFolder)",
                    hint=f"name another folder, such as {node_folder}/ssd",
                )

    def backup_root(self, folder: str, namespace: str) -> str | None:
        """The folder with the backups of a namespace in which `folder` lies, or which it is."""
        return next((each for each in self.backup_folders if is_in(folder, f"{each}/{namespace}")), None)

    def takes_key(self, key: str) -> bool:
        """True for a key of a label or annotation that pods may have."""
        domain, slash, _ = key.rpartition("/")
        return not slash or domain in self.pod_metadata

    def takes_taint(self, key: str | None) -> bool:
        """True for a key of taints that pods may put up with; `None` and the empty one stand for all keys."""
        return "*" in self.tolerations or (bool(key) and key in self.tolerations)


def is_in(folder: str, other: str) -> bool:
    """True for a folder that is another one, or below it."""
    return f"{folder}/".startswith(f"{other}/")


def policy_of(text: str) -> Policy:
    """The policy that a JSON text says."""
    try:
        return Policy.model_validate_json(text)
    except ValidationError as error:
        faults = ((".".join(map(str, place)), problem) for place, problem in explain(error, Policy))
        said = "; ".join(f"policy.{place}: {problem}" if place else problem for place, problem in faults)
        raise ConfigError.of(
            f"the policy makes no sense: {said}"[:1000], hint="correct `policy` in the chart's values"
        ) from None

"""The roles to run: a master, workers and mounts, each with its settings, and where its secrets come from.

A secret is named here and never held: by the key of a Secret, or by the place in the Dataset where a person wrote it
in clear. Names that only a backend knows (addresses, ports, folders, files) are not in the settings; it fills them in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from headrace.api.dataset import Dataset
from headrace.api.identities import User
from headrace.settings.cache_words import CacheWord, WaterMarks
from headrace.settings.engine import Medium
from headrace.settings.roles import MasterSettings, MemberSettings, WorkerSettings
from headrace.settings.sizes import Quota

MASTER_ID = "master"
MOUNT_PREFIX = "mount-"

Settings = MasterSettings | WorkerSettings | MemberSettings


class RoleKind(StrEnum):
    """The kind of a role."""

    MASTER = "master"
    WORKER = "worker"
    MOUNT = "mount"


@dataclass(frozen=True, slots=True)
class SecretKey:
    """A key of a Secret in the dataset's namespace."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class PlainOption:
    """An option that stands in clear in a Dataset and is treated as a secret: of one mount, or of `sharedOptions`."""

    dataset: str
    mount: int | None
    option: str


@dataclass(frozen=True, slots=True)
class SecretFile:
    """The `secret_file` of the origin at `origin_path`: JSON of option → value, for that role alone, mode 0600."""

    origin_path: str
    values: Mapping[str, SecretKey | PlainOption]


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """A folder of a worker's cache. The backend makes it, and may put it below another folder of the node's own."""

    folder: str
    quota_bytes: int
    medium: Literal["MEM", "SSD", "HDD"]
    high: float
    low: float
    volume_type: Literal["hostPath", "emptyDir"] = "hostPath"

    def word(self, folder: str | None = None) -> CacheWord:
        """The entry of `WorkerSettings.cache`, for this folder or the one that stands for it."""
        folders, marks = (Path(folder or self.folder),), WaterMarks(self.high, self.low)
        return CacheWord(folders, Quota(self.quota_bytes), Medium(self.medium), marks)


@dataclass(frozen=True, slots=True)
class Role:
    """One process to run. Two roles with the same id and version are the same.

    `cluster` is the dataset ("namespace/name") whose master it belongs to: another one for one that only refers. A node
    of `None` is any node. The first half of `version` changes with the tree of origins, the second with the rest.
    """

    id: str
    kind: RoleKind
    node: str | None
    settings: Settings
    cluster: str
    secrets: tuple[SecretFile, ...] = ()
    cache: tuple[CacheFolder, ...] = ()
    run_as: User | None = None
    restore_from: str | None = None
    version: str = ""

    @property
    def tree_version(self) -> str:
        """The part of the version that changes with the origins."""
        return tree_version(self.version)


def tree_version(version: str) -> str:
    """The part of a role's version that changes with the origins."""
    return version.partition(".")[0]


def worker_id(index: int) -> str:
    """The id of a worker; the highest goes first when workers become fewer."""
    return f"worker-{index}"


def worker_index(role_id: str) -> int:
    """The number in the id of a worker; -1 for another id."""
    number = role_id.removeprefix("worker-")
    return int(number) if number != role_id and number.isdecimal() else -1


def mount_id(node: str) -> str:
    """The id of the mount of a node."""
    return f"{MOUNT_PREFIX}{node}"


def plain_value(dataset: Dataset, place: PlainOption) -> str:
    """The value that a Dataset holds in clear: for the backend, at the moment it writes the secret file."""
    if place.mount is None:
        return dataset.spec.shared_options[place.option]
    return (dataset.spec.mounts or ())[place.mount].options[place.option]


def digest_of(value: Any) -> str:
    """Twelve hexadecimal digits that change with the value."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]

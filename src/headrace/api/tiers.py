"""Storage of a worker's blocks: levels of memory or disk, their folders, quotas and water marks."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from headrace.api.base import ApiModel, CrossFault, Opaque, Rule
from headrace.api.quantities import Ratio, Size, ratio
from headrace.errors import ConfigError
from headrace.settings.sizes import parse_size


class Medium(StrEnum):
    """The medium of a level."""

    MEM = "MEM"
    SSD = "SSD"
    HDD = "HDD"


class VolumeType(StrEnum):
    """The kind of volume that holds a level."""

    HOST_PATH = "hostPath"
    EMPTY_DIR = "emptyDir"


def _check_paths(text: str) -> str:
    for path in split_list(text):
        if not path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"'{path[:64]}' is not an absolute path (several are parted by commas)")
    return text


def _check_quotas(text: str) -> str:
    for quota in split_list(text):
        if _bytes_or_zero(quota) <= 0:
            raise ValueError(f"'{quota[:32]}' is not a size above zero: write them like 50Gi,100Gi")
    return text


def split_list(text: str) -> list[str]:
    """The items of a comma-separated text."""
    return [item.strip() for item in text.split(",")]


def normal_path(path: str) -> str:
    """`/a/b` of `//a/./b/`."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _bytes_or_zero(text: str) -> int:
    try:
        return parse_size(text)
    except ConfigError:
        return 0


class Level(ApiModel):
    """One level of the cache."""

    rules = (
        Rule(
            "!has(self.volumeSource) || (has(self.volumeType) && self.volumeType == 'emptyDir')",
            "volumeSource needs volumeType emptyDir",
        ),
        Rule(
            "!has(self.high) || !has(self.low) || double(self.high) > double(self.low)",
            "high must be above low",
        ),
        Rule(
            "!has(self.quotaList) || (has(self.path) && "
            "self.quotaList.split(',').size() == self.path.split(',').size())",
            "quotaList needs one quota for each path",
        ),
    )

    mediumtype: Medium = Field(description="Medium of the level")
    volume_type: VolumeType | None = Field(
        default=None, description="Volume that holds it; hostPath when absent"
    )
    volume_source: Opaque | None = Field(
        default=None, description="Source of the volume, for volumeType emptyDir only"
    )
    path: Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_check_paths)] | None = Field(
        default=None, description="Folder on the node; several, parted by commas, share the quota evenly"
    )
    quota: Size | None = Field(default=None, description="Room for all paths together, on each worker")
    quota_list: Annotated[str, Field(min_length=1, max_length=2048), AfterValidator(_check_quotas)] | None = (
        Field(default=None, description="Room for each path, parted by commas; overrides quota")
    )
    high: Ratio | None = Field(default=None, description="Above this share of the quota blocks are evicted")
    low: Ratio | None = Field(default=None, description="Down to this share blocks are evicted")

    @property
    def paths(self) -> list[str]:
        """The folders, each as it is written best."""
        return [normal_path(path) for path in split_list(self.path)] if self.path else []

    def cross_faults(self) -> Iterator[CrossFault]:
        """Lists of one length, high above low, a source only for what has one."""
        if self.quota_list and len(split_list(self.quota_list)) != len(self.paths):
            yield CrossFault(
                ("quotaList",),
                f"has {len(split_list(self.quota_list))} quotas for {len(self.paths)} paths: one for each is needed",
            )
        if self.high is not None and self.low is not None and ratio(self.high) <= ratio(self.low):
            yield CrossFault(("high",), f"{self.high} is not above low ({self.low})")
        if self.volume_source is not None and self.volume_type is not VolumeType.EMPTY_DIR:
            yield CrossFault(("volumeSource",), "needs volumeType emptyDir")
        if len(set(self.paths)) != len(self.paths):
            yield CrossFault(("path",), "names a folder twice")


class TieredStore(ApiModel):
    """The levels of a worker's cache, the fastest first."""

    levels: Annotated[tuple[Level, ...], Field(max_length=16)] = Field(
        default=(), description="Levels, the fastest first"
    )

    def cross_faults(self) -> Iterator[CrossFault]:
        """No two levels in one folder."""
        seen: dict[str, int] = {}
        for number, level in enumerate(self.levels):
            for path in level.paths:
                other = seen.setdefault(path, number)
                if other != number:
                    yield CrossFault(("levels", number, "path"), f"is the folder of levels[{other}], too")

"""The configuration of one engine: the mirror of `EngineConfig` in `crates/engine/src/config.rs`.

`to_json` is the one place where credentials leave their wrapping: its text goes to the native module or down a pipe to
the mount process, and nowhere else.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from headrace.errors import ConfigError
from headrace.settings.allowances import (
    LEAST_MEMORY_BYTES,
    descriptors_here,
    listing_bytes_here,
    memory_bytes_here,
)
from headrace.settings.cluster import ClusterConfig
from headrace.settings.model import Model
from headrace.settings.origins import OriginMount
from headrace.settings.sizes import exact_size, format_size, parse_size

SMALLEST_BLOCK_BYTES = 64 << 10
LARGEST_BLOCK_BYTES = 64 << 20


class Medium(StrEnum):
    """The medium of a cache level."""

    MEM = "MEM"
    SSD = "SSD"
    HDD = "HDD"


class EvictionPolicy(StrEnum):
    """The eviction policy of a full cache."""

    SCAN_RESISTANT = "scan-resistant"
    LRU = "lru"
    LFU = "lfu"


class FolderConfig(Model):
    """One cache folder with its own quota in bytes."""

    path: Path
    quota_bytes: int = Field(gt=0)


class LevelConfig(Model):
    """One cache level. Eviction starts at `high` and stops at `low`, both as shares of the quota."""

    medium: Medium
    folders: tuple[FolderConfig, ...] = Field(min_length=1)
    high: float = Field(default=0.98, gt=0, le=1)
    low: float = Field(default=0.95, gt=0, le=1)

    @model_validator(mode="after")
    def _low_is_below_high(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high})")
        return self


class Limits(Model):
    """The hard limits of one process; a missing one is a share of what this process is
    allowed."""

    memory_bytes: int = Field(default_factory=memory_bytes_here, ge=LEAST_MEMORY_BYTES)
    descriptors: int = Field(default_factory=descriptors_here, ge=64)
    inodes: int = Field(default=64 << 20, ge=1024)
    listing_bytes: int = Field(default_factory=listing_bytes_here, ge=1 << 20)

    def __str__(self) -> str:
        """For the log of a process that starts."""
        return f"at most {format_size(self.memory_bytes)} of data under way and {self.descriptors} open files"


def memory_bytes_of(text: str) -> int:
    """Bytes of the setting `memory`. Raises `ConfigError`, in the words in which it was given."""
    memory_bytes = parse_size(text, setting="memory")
    if memory_bytes < LEAST_MEMORY_BYTES:
        raise ConfigError.of(
            f"setting 'memory': '{text}' is too little", hint=f"{exact_size(LEAST_MEMORY_BYTES)} is the least"
        )
    return memory_bytes


def listing_bytes_of(text: str) -> int:
    """Bytes of the setting `list_memory`. Raises `ConfigError`."""
    listing_bytes = parse_size(text, setting="list_memory")
    if listing_bytes < 1 << 20:
        raise ConfigError.of(f"setting 'list_memory': '{text}' is too little", hint="1Mi is the least")
    return listing_bytes


def _is_block_size(size: int) -> int:
    if size.bit_count() != 1 or not SMALLEST_BLOCK_BYTES <= size <= LARGEST_BLOCK_BYTES:
        raise ValueError("a block is a power of two from 64Ki to 64Mi")
    return size


class TransferConfig(Model):
    """Settings for fetching data."""

    block_size_bytes: Annotated[int, AfterValidator(_is_block_size)] = 4 << 20
    concurrency: int = Field(default=32, ge=1, le=4096)
    readahead_bytes: int = Field(default=128 << 20, ge=0)
    timeout_s: float = Field(default=20.0, gt=0)
    retries: int = Field(default=5, ge=0, le=100)
    threads: int = Field(default=2, ge=1, le=256)


class SnapshotPolicy(StrEnum):
    """The snapshot that an engine starts with: a new one, the last one if there is one, or the last one until a new one
    is there."""

    REFRESH = "refresh"
    KEEP = "keep"
    REVALIDATE = "revalidate"


class EngineConfig(Model):
    """One engine: one dataset, its origins, its cache and its limits."""

    name: str = Field(min_length=1)
    origins: tuple[OriginMount, ...] = Field(min_length=1)
    cache: tuple[LevelConfig, ...] = ()
    state_directory: Path
    limits: Limits = Field(default_factory=Limits)
    transfer: TransferConfig = Field(default_factory=TransferConfig)
    eviction: EvictionPolicy = EvictionPolicy.SCAN_RESISTANT
    snapshot: SnapshotPolicy = SnapshotPolicy.REFRESH
    cluster: ClusterConfig | None = None
    writable: bool = False

    def to_json(self) -> str:
        """The engine's own form, credentials in clear: never log, print or store what this returns."""
        return plain_json(self)


def plain_json(model: Model) -> str:
    """A value as JSON with its credentials in clear: for the native module or a pipe, never for a log or a file."""
    return json.dumps(model.model_dump(), default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")

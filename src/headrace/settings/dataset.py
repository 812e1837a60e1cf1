"""Settings of a dataset and its mount, in people's own words: the flags, the file and the SDK share them.

Text such as `100Gi` is checked when it is used to configure an engine, so that one place words each error.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import Field

from headrace.settings.cache_words import CacheWordsOrUsual
from headrace.settings.engine import EvictionPolicy, SnapshotPolicy
from headrace.settings.exclusions import Patterns
from headrace.settings.log_format import LogFormat
from headrace.settings.model import Model


class MountMode(StrEnum):
    """The way to serve the kernel; `auto` takes the fastest that kernel and rights allow, but never `view`."""

    AUTO = "auto"
    PASSTHROUGH = "passthrough"
    ELIDE = "elide"
    CLASSIC = "classic"
    VIEW = "view"


class DatasetSettings(Model):
    """One dataset: where it comes from, what is kept of it here, and what that may cost."""

    name: str | None = Field(
        default=None, description="Name of the dataset; without it, taken from the origin"
    )
    cache: CacheWordsOrUsual = Field(
        default=None,
        description="Cache folders, `PATH:QUOTA[:MEM|SSD|HDD]`, fastest first; without any, half of the free space "
        "below the user's cache folder; `none` for no cache",
    )
    options: Mapping[str, str] = Field(
        default_factory=dict, repr=False, description="Options of the origins, see the page on options"
    )
    exclude: Patterns = Field(
        default=(),
        description="Patterns of files and folders to leave out, as in a `.gitignore`: `*.tmp`, `_temporary/`, `/top`",
    )
    secret_file: Path | None = Field(
        default=None,
        description="File (JSON or KEY=VALUE lines) or folder (a file for each key) that holds credentials",
    )
    state_directory: Path | None = Field(
        default=None, description="Folder of the snapshot, the lock and the socket"
    )
    memory: str | None = Field(
        default=None,
        description="Memory limit for data in flight; else a quarter of what the control group allows, "
        "at most 1Gi, and 512Mi without a limit",
    )
    block_size: str = Field(default="4Mi", description="Size of a block; another size means another cache")
    read_ahead: str = Field(default="128Mi", description="Most bytes fetched ahead of one sequential reader")
    eviction: EvictionPolicy = Field(
        default=EvictionPolicy.SCAN_RESISTANT, description="Eviction policy of a full cache"
    )
    snapshot: SnapshotPolicy = Field(
        default=SnapshotPolicy.REFRESH,
        description="`refresh` lists the origin again at the start (the last list serves if it does not answer); "
        "`keep` starts at once with the last list; `revalidate` does so, too, and lists the origin again meanwhile",
    )
    high: float = Field(default=0.98, description="Share of the quota at which eviction starts")
    low: float = Field(default=0.95, description="Share of the quota at which eviction stops")
    concurrency: int = Field(default=32, description="Requests to one origin at the same time")
    timeout_s: float = Field(default=20.0, description="Longest silence of an origin, in seconds")
    retries: int = Field(default=5, description="Tries after the first of what is temporary")
    threads: int = Field(default=2, description="Threads that talk to origins")
    descriptors: int | None = Field(
        default=None, description="Most open files of the process; else three quarters of what it may open"
    )
    inodes: int = Field(default=64 << 20, description="Most names that the kernel may remember")
    list_memory: str | None = Field(
        default=None,
        description="Memory limit for the list of files while it is made, about 75 bytes a file and its name; "
        "else three quarters of what the control group allows, or of the machine's. A longer list is refused",
    )


class MountSettings(Model):
    """The settings of a dataset's mount."""

    mode: MountMode = Field(default=MountMode.AUTO, description="Way to serve the kernel")
    allow_other: bool = Field(default=False, description="Let other users read the mount")
    nonempty: bool = Field(default=False, description="Mount over a folder that is not empty")
    writable: bool = Field(
        default=False, description="Let programs write; what they close is in the origin then"
    )
    metrics_address: str | None = Field(
        default=None, description="`HOST:PORT` where /metrics and /healthz answer; without it, nowhere"
    )
    log_file: Path | None = Field(
        default=None, description="Log of a mount in the background; without it, a file in the state folder"
    )
    log_level: str = Field(
        default="info", pattern="^(error|warn|info|debug|trace)$", description="Level of the log"
    )
    log_format: LogFormat = Field(default=LogFormat.TEXT, description="`text`, or `json`: an object a line")

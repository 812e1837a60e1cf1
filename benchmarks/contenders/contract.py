"""What the benchmark asks of a system under test. Knows no system and no workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from headrace.testing.s3_client import Credentials


class Kind(Enum):
    """The side a contender stands on when ratios are formed."""

    LOCAL = "local"
    PEER = "peer"
    HEADRACE = "headrace"


@dataclass(frozen=True)
class Source:
    """A folder of a bucket, as a client is told of it."""

    endpoint: str
    bucket: str
    prefix: str = ""
    region: str = "us-east-1"
    credentials: Credentials = field(default_factory=lambda: Credentials("none", "none"))


@dataclass(frozen=True)
class CacheSpace:
    """Where a contender may keep data on disk, and how much of it."""

    folder: Path
    quota_bytes: int
    memory_bytes: int | None = None
    """How much memory data may take besides, for those who can be told; None leaves their default."""

    @property
    def quota_mebibytes(self) -> int:
        return self.quota_bytes >> 20


class MountError(RuntimeError):
    """A contender did not come up; the message holds the end of its log."""


class Mounted(Protocol):
    """A tree that can be read at `directory` until `close`."""

    @property
    def directory(self) -> Path: ...

    @property
    def command(self) -> str: ...

    def processes(self) -> Sequence[int]:
        """The pids that serve the tree; none for the local file system."""

    def warm(self, seconds: float) -> str | None:
        """Brings the whole tree into the cache by the contender's own means; None: it has none."""

    def close(self) -> None:
        """Unmounts and ends every process. Safe to call twice."""


class Contender(Protocol):
    """A system that can show a bucket's folder as a directory."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def keeps_disk_cache(self) -> bool:
        """Whether data read once is served from this machine's disk the next time."""

    @property
    def obeys_quota(self) -> bool:
        """Whether the disk cache has a size limit (the epoch workload needs one)."""

    def missing(self) -> str | None:
        """Why it cannot take part here, or None."""

    def version(self) -> str: ...

    def mount(self, source: Source, mountpoint: Path, cache: CacheSpace) -> Mounted:
        """Mounts; returns when the tree can be read. `MountError` when it does not come up."""

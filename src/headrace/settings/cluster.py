"""The configurations of the native parts of a cluster: worker, member, snapshot and load, as the engine reads them.

Each `to_json` gives credentials in clear: its text goes to the native module or down a pipe, and nowhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr

from headrace.settings.engine import (
    EngineConfig,
    EvictionPolicy,
    LevelConfig,
    Limits,
    TransferConfig,
    plain_json,
)
from headrace.settings.model import Model
from headrace.settings.origins import OriginMount


class TlsConfig(Model):
    """PEM files for connections between processes; those who only ask need no certificate."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path


class ClusterConfig(Model):
    """What makes an engine read through workers. `view` is the ring's JSON, `snapshot` the file to go by."""

    view: dict[str, Any]
    token: SecretStr
    node: str
    read_deadline_s: float = Field(default=300.0, gt=0)
    hedge: bool = True
    snapshot: Path
    tls: TlsConfig | None = None


class MemberConfig(EngineConfig):
    """An engine whose origins are workers: `origins` name the data, without credentials."""

    cluster: ClusterConfig


class WorkerConfig(Model):
    """One worker: its cache, its origins with credentials, and where it serves."""

    cluster: str
    id: str
    node: str
    listen: str
    token: SecretStr
    origins: tuple[OriginMount, ...] = Field(min_length=1)
    cache: tuple[LevelConfig, ...] = Field(min_length=1)
    state_directory: Path
    limits: Limits = Limits()
    transfer: TransferConfig = TransferConfig()
    eviction: EvictionPolicy = EvictionPolicy.SCAN_RESISTANT
    tls: TlsConfig | None = None
    view: dict[str, Any] | None = None

    def to_json(self) -> str:
        """The native form, credentials in clear."""
        return plain_json(self)


class SnapshotConfig(Model):
    """What is listed for a snapshot."""

    name: str
    origins: tuple[OriginMount, ...] = Field(min_length=1)
    transfer: TransferConfig = TransferConfig()

    def to_json(self) -> str:
        """The native form, credentials in clear."""
        return plain_json(self)


class LoadConfig(Model):
    """One load: what is done, by which snapshot and members, and how fast at most."""

    action: str = Field(pattern="^(load|evict)$")
    snapshot: Path
    view: dict[str, Any]
    token: SecretStr
    replicas: int | None = None
    rate_bytes_per_s: int | None = None
    verify: bool = False
    block_size_bytes: int = 4 << 20
    tls: TlsConfig | None = None

    def to_json(self) -> str:
        """The native form, the token in clear."""
        return plain_json(self)

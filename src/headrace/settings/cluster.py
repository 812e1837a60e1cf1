"""Membership of a process in a cluster: the mirror of `ClusterConfig` in `crates/engine/src/config.rs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr

from headrace.settings.model import Model


class TlsConfig(Model):
    """PEM files of TLS between members. Clients of a worker that has a `client_authority` need a certificate, too."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None


class WorkerConfig(Model):
    """Settings of a worker alone: its name in the view, and `address:port` to listen on."""

    id: str
    listen: str


class ClusterConfig(Model):
    """A member. `view` is the ring's JSON to start with."""

    view: dict[str, Any]
    token: SecretStr
    token_file: Path | None = None
    node: str
    read_deadline_s: float = Field(default=300.0, gt=0)
    hedge: bool = True
    silence_s: float = Field(default=2.0, gt=0)
    connect_timeout_s: float = Field(default=1.0, gt=0)
    tls: TlsConfig | None = None
    worker: WorkerConfig | None = None

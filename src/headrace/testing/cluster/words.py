"""The words of the roles: commands, configuration files, and what the master tells of itself. All of them stand here.

When a flag or a key gets another name, this is the one module of the test bed that changes.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from headrace.control.rights import Rights, derive
from headrace.control.signing import SigningKey

MASTER_PORT = 8700
WORKER_PORT = 8701
METRICS_PORT = 9100

Settings = Mapping[str, Any]


def headrace_program() -> str:
    """The command of the environment that runs the tests, else of PATH."""
    beside = Path(sys.executable).with_name("headrace")
    return str(beside) if beside.is_file() else shutil.which("headrace") or "headrace"


@dataclass(frozen=True)
class OriginWords:
    """One origin, and the file with its keys, for those roles that may have them."""

    uri: str
    options: Mapping[str, str]
    secret_file: Path
    path: str = ""

    def as_settings(self) -> Settings:
        told = {"origin": self.uri, "options": dict(self.options), "secret_file": str(self.secret_file)}
        return told | ({"path": self.path} if self.path else {})


def secret_text(access_key_id: str, secret_access_key: str) -> str:
    """The content of a file with the keys of an S3 origin."""
    return f"aws.accessKeyId={access_key_id}\naws.secretKey={secret_access_key}\n"


def master_url(address: str, *, with_tls: bool = False) -> str:
    return f"{'https' if with_tls else 'http'}://{address}:{MASTER_PORT}"


def master_settings(address: str, state: Path, token: Path, origins: Sequence[OriginWords]) -> Settings:
    return {
        "listen": f"{address}:{MASTER_PORT}",
        "state_directory": str(state),
        "token_file": str(token),
        "origins": [origin.as_settings() for origin in origins],
    }


def worker_settings(
    name: str,
    address: str,
    state: Path,
    *,
    token: Path,
    master: str,
    cache: Sequence[str],
    origins: Sequence[OriginWords],
) -> Settings:
    return {
        "id": name,
        "node": name,
        "master": master,
        "listen": f"{address}:{WORKER_PORT}",
        "advertise": f"{address}:{WORKER_PORT}",
        "state_directory": str(state),
        "token_file": str(token),
        "cache": list(cache),
        "origins": [origin.as_settings() for origin in origins],
        "metrics_address": f"{address}:{METRICS_PORT}",
    }


def mount_settings(name: str, mountpoint: Path, state: Path, *, token: Path, master: str) -> Settings:
    return {
        "node": name,
        "master": master,
        "mountpoint": str(mountpoint),
        "state_directory": str(state),
        "token_file": str(token),
    }


def tls_settings(folder: Path, name: str | None) -> Settings:
    """The TLS settings of a worker; a mount, which has no name, only knows the authority."""
    own = {"certificate": str(folder / f"{name}.pem"), "key": str(folder / f"{name}.key")} if name else {}
    return {"tls": {"authority": str(folder / "authority.pem"), **own}}


def https_settings(folder: Path, name: str) -> Settings:
    """The HTTPS settings of a master."""
    return {"https": {"certificate": str(folder / f"{name}.pem"), "key": str(folder / f"{name}.key")}}


def role_command(role: str, config: Path) -> list[str]:
    """A master or a worker in the foreground."""
    return [headrace_program(), role, "--config", str(config)]


def mount_command(config: Path) -> list[str]:
    """A mount as a member of a cluster, in the foreground."""
    return [headrace_program(), "mount", "--config", str(config), "--foreground"]


def load_command(master: str, token: Path, paths: Sequence[str], *words: str) -> list[str]:
    """A distributed warm-up; `words` are its flags. Waits for the end unless they say otherwise."""
    return [headrace_program(), "load", *paths, *_asking(master, token), *words]


def cancel_command(master: str, token: Path, load: str) -> list[str]:
    return [headrace_program(), "load", "--cancel", load, *_asking(master, token)]


def drain_command(master: str, token: Path, worker: str) -> list[str]:
    """Returns when the worker has handed its blocks over and left."""
    return [headrace_program(), "drain", worker, *_asking(master, token)]


def _asking(master: str, token: Path) -> list[str]:
    return ["--cluster", master, "--token-file", str(token)]


STATUS_PATH = "/v1/status"


def status_url(master: str) -> str:
    """The address at which the master tells of the whole cluster; names to those alone who sign."""
    return f"{master}{STATUS_PATH}"


def signed(token: Path) -> dict[str, str]:
    """The headers of a question at `status_url`, by the token in a file."""
    key = SigningKey.of(SecretStr(token.read_text().strip()))
    return key.sign_request("GET", STATUS_PATH, b"", now_ms=int(time.time() * 1000))


def reader_token(token: Path) -> str:
    """The token that a person types into the master's page, made of the one in a file."""
    return derive(SecretStr(token.read_text().strip()), Rights.READER).get_secret_value()


def worker_metrics_url(address: str) -> str:
    return f"http://{address}:{METRICS_PORT}/metrics"


def as_environment(role: str, settings: Settings) -> dict[str, str]:
    """Settings as variables, for those that stand in no file; what has parts of its own cannot."""
    plain = {name: value for name, value in settings.items() if name not in ("origins", "tls")}
    return {f"HEADRACE_{role}_{name}".upper(): _as_variable(value) for name, value in plain.items()}


def _as_variable(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


EPOCH_METRIC = "headrace_cluster_epoch"
"""The view that a worker or a mount goes by."""
DETACHED = "--detach"
"""A load that goes on without its command."""
PROCESS_ENVIRONMENT = {"NO_COLOR": "1", "no_proxy": "*"}


@dataclass(frozen=True)
class WorkerRow:
    """A worker as the master tells of it."""

    id: str
    state: str
    cached_bytes: int
    is_silent: bool
    is_listed: bool
    joined_epoch: int
    """The first view that listed it; 0 before that."""
    started_at_s: float
    """Grows with each start of its process."""


@dataclass(frozen=True)
class LoadRow:
    """A load as the master tells of it."""

    id: str
    state: str
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class ClusterStatus:
    """The master's status of its cluster, as far as tests ask."""

    epoch: int
    files: int
    workers: Mapping[str, WorkerRow]
    mounts: Sequence[str]
    """The nodes of the mounts that report."""
    loads: Mapping[str, LoadRow]
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def cached_bytes(self) -> int:
        return sum(worker.cached_bytes for worker in self.listed())

    def listed(self) -> Sequence[WorkerRow]:
        """Those in the view: mounts read from them."""
        return [worker for worker in self.workers.values() if worker.is_listed]

    def active(self) -> set[str]:
        """The workers that take part, by a view that readers can have, and have reported lately."""
        return {
            one.id
            for one in self.workers.values()
            if one.state == "active" and not one.is_silent and one.joined_epoch > 0
        }


def parse_status(text: str) -> ClusterStatus:
    """The status at `status_url`."""
    told = json.loads(text)
    workers = [
        WorkerRow(
            id=one["id"],
            state=one["state"],
            cached_bytes=one["cached_bytes"],
            is_silent=one.get("heartbeat_age_s") is None,
            is_listed=one["is_listed"],
            joined_epoch=one["joined_epoch"],
            started_at_s=one["started_at_s"],
        )
        for one in told["workers"]
    ]
    loads = [LoadRow(one["id"], one["state"], one["done_bytes"], one["total_bytes"]) for one in told["loads"]]
    return ClusterStatus(
        epoch=told["epoch"],
        files=(told.get("snapshot") or {}).get("files", 0),
        workers={one.id: one for one in workers},
        mounts=[one["node"] for one in told["mounts"]],
        loads={one.id: one for one in loads},
        raw=told,
    )

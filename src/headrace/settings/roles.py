"""The settings of each role of a cluster: the master, a worker, a mount as a member, a load, a copy.

One file for each role, in YAML; `reading` puts environment and command line on top. Text such as `100Gi` is checked
where it is used. Credentials and the token never stand in these values: only the places where they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, model_validator

from headrace.settings.cache_words import CacheWords
from headrace.settings.dataset import MountMode
from headrace.settings.engine import EvictionPolicy
from headrace.settings.exclusions import Patterns
from headrace.settings.log_format import LogFormat
from headrace.settings.model import Model
from headrace.settings.origin_options import is_of_lists

DEFAULT_MASTER_PORT = 8700
DEFAULT_WORKER_PORT = 8701
_NAME = r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"


class OriginSettings(Model):
    """One origin of the dataset, and where it appears in the tree."""

    path: str = Field(default="", description="Place in the tree; empty for the root, if there is only one")
    origin: str = Field(
        min_length=1, description="Location of the data: `s3://bucket/prefix`, `oss://…`, `/path`"
    )
    options: Mapping[str, str] = Field(
        default_factory=dict, repr=False, description="Options of this origin, see the page on options"
    )
    exclude: Patterns | None = Field(
        default=None, description="Of a master and a copy: patterns of files and folders to leave out"
    )
    exclude_below: str | None = Field(
        default=None,
        description="Place of the origin below the folder that the patterns are of; that folder itself by default",
    )
    secret_file: Path | None = Field(default=None, description="File or folder that holds its credentials")

    def for_reading(self) -> OriginSettings:
        """The origin without what says only which of its names are listed."""
        options = {name: value for name, value in self.options.items() if not is_of_lists(name)}
        return self.model_copy(update={"options": options, "exclude": None, "exclude_below": None})


class TlsSettings(Model):
    """TLS between workers, and between mounts and workers. All are PEM files."""

    certificate: Path | None = Field(default=None, description="Certificate of this process, with its chain")
    key: Path | None = Field(default=None, description="Key of the certificate")
    authority: Path = Field(description="Certificate of the authority that all workers are signed by")
    client_authority: Path | None = Field(
        default=None,
        description="Of a worker: who asks it needs a certificate signed by this authority, besides the token",
    )

    @model_validator(mode="after")
    def _certificate_and_key_go_together(self) -> TlsSettings:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together")
        return self


class HttpsSettings(Model):
    """The settings of a server that speaks HTTPS. Both are PEM files."""

    certificate: Path = Field(description="Certificate for the master's address, with its chain")
    key: Path = Field(description="Key of the certificate")


class RoleSettings(Model):
    """The settings that every role has."""

    token_file: Path | None = Field(
        default=None, description="File with the token of the cluster; or the variable HEADRACE_TOKEN"
    )
    log_level: str = Field(
        default="info", pattern="^(error|warn|info|debug|trace)$", description="Level of the log"
    )
    log_format: LogFormat = Field(default=LogFormat.TEXT, description="`text`, or `json`: an object a line")


class MasterSettings(RoleSettings):
    """The master: makes snapshots, knows the members, runs loads, shows the cluster."""

    cluster: str = Field(default="headrace", pattern=_NAME, description="Name of the cluster")
    listen: str = Field(default=f":{DEFAULT_MASTER_PORT}", description="`HOST:PORT` where it answers")
    state_directory: Path | None = Field(
        default=None, description="Folder of its state, the token (at first start) and the snapshots"
    )
    web: bool = Field(default=True, description="Serve the web page at /")
    origins: tuple[OriginSettings, ...] = Field(default=(), description="The origins of the dataset")
    machine_credentials: bool = Field(
        default=True,
        description="Use keys that the machine has (variables, AWS profiles, its role) for origins that name none",
    )
    refresh_interval_s: float = Field(
        default=0.0, ge=0, description="Take a new snapshot this often; 0: only when asked"
    )
    snapshot_at_start: bool = Field(
        default=True,
        description="List the origins at the start; `false` starts with the last list if there is one",
    )
    list_memory: str | None = Field(
        default=None,
        description="Memory limit for the list of files while it is made, about 75 bytes a file and its name; "
        "else three quarters of what the control group allows, or of the machine's. A longer list is refused",
    )
    replicas: int = Field(default=1, ge=1, le=16, description="Number of workers that own each block")
    block_size: str = Field(default="4Mi", description="Size of a block, for the whole cluster")
    heartbeat_interval_s: float = Field(
        default=2.0, gt=0, le=60, description="Interval at which workers report"
    )
    dead_after_s: float = Field(
        default=15.0, gt=0, le=3600, description="A worker silent for so long is taken out of the ring"
    )
    concurrency: int = Field(default=32, ge=1, description="Requests to one origin at the same time")
    tls: TlsSettings | None = Field(
        default=None, description="TLS of its loads towards the workers: `authority`"
    )
    https: HttpsSettings | None = Field(
        default=None, description="Answer HTTPS at `listen`, in the place of HTTP: `certificate`, `key`"
    )


class WorkerSettings(RoleSettings):
    """A worker: keeps blocks in its cache levels, and serves them to mounts and other workers."""

    master: str | None = Field(
        default=None, description="URL of the master: `http://HOST:8700`, or `https://`"
    )
    id: str | None = Field(
        default=None,
        pattern=_NAME,
        description="Unique and stable over restarts; by default, the host's name",
    )
    node: str | None = Field(default=None, description="The machine; readers on it prefer this worker")
    listen: str = Field(
        default=f":{DEFAULT_WORKER_PORT}", description="`HOST:PORT` for mounts and other workers"
    )
    advertise: str | None = Field(
        default=None,
        description="`HOST[:PORT]` under which others reach it; by default, its address towards the master",
    )
    origins: tuple[OriginSettings, ...] = Field(
        default=(), description="The same origins as the master's, with this worker's credentials"
    )
    machine_credentials: bool = Field(
        default=True,
        description="Use keys that the machine has (variables, AWS profiles, its role) for origins that name none",
    )
    cache: CacheWords = Field(
        default=(),
        description="Cache levels, `PATH:QUOTA[:MEM|SSD|HDD]`, fastest first; `:HIGH-LOW` may follow",
    )
    fit_cache: bool = Field(
        default=False, description="Take less where a disk is smaller than the quotas, instead of refusing"
    )
    high: float = Field(default=0.98, description="Share of the quota at which eviction starts")
    low: float = Field(default=0.95, description="Share of the quota at which eviction stops")
    eviction: EvictionPolicy = Field(
        default=EvictionPolicy.SCAN_RESISTANT, description="Eviction policy of a full cache"
    )
    memory: str | None = Field(
        default=None,
        description="Memory limit for data in flight; else a quarter of what the control group allows, "
        "at most 1Gi, and 512Mi without a limit",
    )
    state_directory: Path | None = Field(default=None, description="Folder of its lock and the last view")
    tls: TlsSettings | None = Field(
        default=None,
        description="TLS: `certificate`, `key`, `authority`; the authority is believed at an `https://` master, too",
    )
    metrics_address: str | None = Field(
        default=None, description="`HOST:PORT` where /metrics and /healthz answer"
    )
    concurrency: int = Field(default=32, ge=1, description="Requests to one origin at the same time")
    timeout_s: float = Field(default=20.0, gt=0, description="Longest silence of an origin, in seconds")
    retries: int = Field(default=5, ge=0, description="Tries after the first of what is temporary")
    threads: int = Field(default=2, ge=1, description="Threads that move data")
    lingers_drained: bool = Field(
        default=False,
        description="Wait to be ended after a drain, for whoever would start the process again",
    )


class MemberSettings(RoleSettings):
    """A mount that reads through the cluster. It holds no credentials of the origins."""

    master: str | None = Field(
        default=None, description="URL of the master: `http://HOST:8700`, or `https://`"
    )
    mountpoint: Path | None = Field(default=None, description="An empty folder")
    node: str | None = Field(default=None, description="The machine; workers on it are asked first")
    read_deadline_s: float = Field(
        default=300.0, gt=0, description="Time that a read waits for any worker before it fails"
    )
    hedge: bool = Field(default=True, description="Ask a second worker when the first is late and it pays")
    cache: CacheWords = Field(
        default=(), description="A cache of this mount's own, `PATH:QUOTA[:MEM|SSD|HDD]`; without any, none"
    )
    high: float = Field(default=0.98, description="Share of the quota at which eviction starts")
    low: float = Field(default=0.95, description="Share of the quota at which eviction stops")
    memory: str | None = Field(
        default=None,
        description="Memory limit for data in flight; else a quarter of what the control group allows, "
        "at most 1Gi, and 512Mi without a limit",
    )
    read_ahead: str = Field(default="128Mi", description="Most bytes fetched ahead of one sequential reader")
    state_directory: Path | None = Field(default=None, description="Folder of the snapshot and the last view")
    tls: TlsSettings | None = Field(
        default=None,
        description="TLS towards the workers, and whom to believe at an `https://` master: `authority`",
    )
    mode: MountMode = Field(default=MountMode.AUTO, description="Way to serve the kernel")
    allow_other: bool = Field(default=False, description="Let other users read the mount")
    nonempty: bool = Field(default=False, description="Mount over a folder that is not empty")
    metrics_address: str | None = Field(
        default=None, description="`HOST:PORT` where /metrics and /healthz answer"
    )
    log_file: Path | None = Field(default=None, description="Log of a mount in the background")
    keeper: Path | None = Field(
        default=None,
        description="Socket of the node's keeper (`headrace csi`): the mount outlives the end of all its processes",
    )


class LoadSettings(RoleSettings):
    """A distributed warm-up, and what else can be ordered for paths."""

    master: str | None = Field(
        default=None, description="URL of the master: `http://HOST:8700`, or `https://`"
    )
    paths: tuple[str, ...] = Field(default=(), description="Files or folders; none for the whole dataset")
    replicas: int | None = Field(
        default=None, ge=1, le=16, description="Copies of each block; by default the cluster's"
    )
    rate: str | None = Field(
        default=None, description="Most bytes a second of the whole cluster, such as `1Gi`"
    )
    verify: bool = Field(default=False, description="Compare what is cached with its checksums, too")
    pin: bool = Field(default=False, description="Keep what is loaded, whatever else is read")
    evict: bool = Field(default=False, description="Drop the paths from the caches instead")
    unpin: bool = Field(default=False, description="Let the paths be evicted again")

    @model_validator(mode="after")
    def _one_thing_at_a_time(self) -> LoadSettings:
        if self.evict + self.unpin + (self.pin or self.verify) > 1:
            raise ValueError("evict, unpin and a load (pin, verify) are different orders: give one")
        return self


class CopySettings(RoleSettings):
    """A copy of files to a folder or bucket: from the dataset of a cluster, or from storage."""

    master: str | None = Field(
        default=None, description="URL of the master whose dataset is copied: `http://HOST:8700`"
    )
    source: OriginSettings | None = Field(
        default=None, description="Storage to copy from, in the place of a dataset: `origin`, `options`"
    )
    source_path: str = Field(default="", description="A file or folder of the source; empty for all of it")
    target: OriginSettings | None = Field(
        default=None, description="Destination of the files: `s3://bucket/prefix`, `oss://…`, `/folder`"
    )
    machine_credentials: bool = Field(
        default=True,
        description="Use keys that the machine has (variables, AWS profiles, its role) for origins that name none",
    )
    files: int = Field(default=16, ge=1, le=1024, description="Files copied at the same time")
    part_size: str = Field(
        default="16Mi", description="Larger files are sent in parts of this size; 5Mi is the least"
    )
    memory: str | None = Field(
        default=None,
        description="Memory limit for data in flight; else a quarter of what the control group allows, "
        "at most 1Gi, and 512Mi without a limit",
    )
    concurrency: int = Field(default=32, ge=1, description="Requests to one origin at the same time")
    node: str | None = Field(default=None, description="The machine; workers on it are asked first")
    state_directory: Path | None = Field(
        default=None, description="Folder of the ledger of copied files; the same one resumes the copy"
    )
    progress_file: Path | None = Field(
        default=None, description="File that says how far it is, replaced every second"
    )
    progress_address: str | None = Field(
        default=None,
        description="HOST:PORT where `/v1/progress` says how far it is, to anybody: numbers alone, no names of files",
    )
    last_word_file: Path | None = Field(
        default=None,
        description="File that gets the last state, written in place: the termination message of a container",
    )
    tls: TlsSettings | None = Field(
        default=None,
        description="TLS towards the workers, and whom to believe at an `https://` master: `authority`",
    )

    @model_validator(mode="after")
    def _one_source(self) -> CopySettings:
        if self.master is not None and self.source is not None:
            raise ValueError("master and source are two sources: give one")
        return self


ROLES: Mapping[str, type[RoleSettings]] = {
    "master": MasterSettings,
    "worker": WorkerSettings,
    "mount": MemberSettings,
    "load": LoadSettings,
    "copy": CopySettings,
}
"""The settings of each role, by the name that its file and its variables go by."""

"""Messages between the master and the others: the bodies of requests and answers, version 1.

Fields that a newer side adds are ignored, so that a cluster can be upgraded process by process. Every text and list has
a limit. Paths travel percent-encoded: a path is bytes, JSON is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from pydantic import ConfigDict, Field, StringConstraints

from headrace.process.deferred_model import DeferredModel

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")]
MOST_LINE = 512
Line = Annotated[str, StringConstraints(max_length=MOST_LINE, pattern=r"^[^\x00-\x1f\x7f]*$")]
Count = Annotated[int, Field(ge=0, lt=2**63)]

Moment = Annotated[float, Field(ge=0, lt=253_402_300_800, allow_inf_nan=False)]
"""Seconds since 1970, before the year 10000."""

MOST_LEVELS = 64
MOST_PATHS = 100_000
LONGEST_PATH = 3 * 4096


class Message(DeferredModel):
    """A part of a body."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Level(Message):
    """One cache level of a worker."""

    medium: Name
    quota_bytes: Count
    used_bytes: Count = 0
    trouble: Line = Field(default="", description="Why a disk of it takes nothing new at present")


class Traffic(Message):
    """Bytes since the process started, by where they came from."""

    local_bytes: Count = 0
    peer_bytes: Count = 0
    origin_bytes: Count = 0
    loaded_bytes: Count = Field(
        default=0, description="Those from the origin that a load asked for, and no reader"
    )


class WorkerState(StrEnum):
    """The state of a worker: at work, or with nothing left to hand over."""

    ACTIVE = "active"
    LEFT = "left"


class Heartbeat(Message):
    """The repeated report of a worker to the master.

    `incarnation` grows with each start of its process; `joined_epoch` is what the view it knows says of itself, and
    `known_members` how many that view lists.
    """

    id: Name
    incarnation: Count
    address: Line
    node: Line
    capacity_bytes: Count
    cached_bytes: Count = 0
    state: WorkerState = WorkerState.ACTIVE
    known_epoch: Count = 0
    joined_epoch: Count = 0
    known_members: Count = 0
    draining: bool = Field(default=False, description="True if it was told to hand over what it has")
    dataset: Line = Field(default="", description="Fingerprint of the origins that it can read")
    lease_socket: Line | None = None
    levels: tuple[Level, ...] = Field(default=(), max_length=MOST_LEVELS)
    traffic: Traffic = Field(default_factory=Traffic)
    drained_bytes: Count = 0
    to_drain_bytes: Count = 0
    hanging_folders: tuple[Line, ...] = Field(
        default=(), max_length=MOST_LEVELS, description="Cache folders whose disk does not answer"
    )
    version: Line = ""
    origin_silent_s: float = Field(
        default=0.0, ge=0, description="Time for which it has asked the storage in vain"
    )


class MountHeartbeat(Message):
    """The report of a mount to the master: it is no member of the ring, but people want to see it."""

    id: Name
    instance: Name
    node: Line
    mountpoint: Line
    known_epoch: Count = 0
    snapshot_version: Count = 0
    traffic: Traffic = Field(default_factory=Traffic)


class SnapshotNote(Message):
    """The snapshot in use. `sha256` is that of the whole file."""

    version: Count = 0
    files: Count = 0
    directories: Count = 0
    data_bytes: Count = 0
    file_bytes: Count = 0
    sha256: Line = ""
    taken_at_s: float = 0.0

    @property
    def tag(self) -> str:
        """Names these bytes: a master that lost its folder may give a version a second time."""
        return f"{self.version}-{self.sha256[:16]}"


class DatasetNote(Message):
    """The cached data: the origins by their canonical names, which hold no credentials, at their places in the tree."""

    name: Line = ""
    fingerprint: Line = ""
    origins: tuple[tuple[str, str], ...] = ()
    block_size_bytes: Count = 4 << 20


class Outlook(Message):
    """The cluster as a member has to take it.

    `view` is the ring's own JSON; `None` when there is none that is news for the asker. Only an asker who knows none
    is told one that nobody has published: of epoch 0, without members.
    """

    cluster: Line
    epoch: Count
    view: dict[str, Any] | None = None
    snapshot: SnapshotNote | None = None
    dataset: DatasetNote = Field(default_factory=DatasetNote)
    pins_version: Count = 0
    replicas: Count = 1

    @property
    def published_view(self) -> dict[str, Any] | None:
        """The view, if it is one that some master has published."""
        return self.view if self.epoch > 0 else None


class HeartbeatOrder(StrEnum):
    """The order for a worker."""

    SERVE = "serve"
    DRAIN = "drain"
    STOP = "stop"
    SUPERSEDED = "superseded"


class HeartbeatAnswer(Message):
    """The outlook, when to report again, and what to do."""

    outlook: Outlook
    next_interval_s: float = Field(gt=0, le=3600)
    order: HeartbeatOrder = HeartbeatOrder.SERVE


PIN_BYTES = 16
PINS_OF_A_PAGE = 1 << 18


@dataclass(frozen=True, slots=True)
class Pins:
    """The files that workers keep whatever else is read: their ids, `PIN_BYTES` each, one after the other."""

    version: int
    ids: bytes = b""

    @property
    def count(self) -> int:
        """The number of files."""
        return len(self.ids) // PIN_BYTES

    def page(self, start: int) -> PinsPage:
        """The files from number `start` on, as many as one answer holds."""
        ids = self.ids[start * PIN_BYTES : (start + PINS_OF_A_PAGE) * PIN_BYTES]
        return PinsPage(version=self.version, total=self.count, digits=ids.hex())

    def listed(self) -> PinsPage:
        """All of them, as workers of older versions understand it."""
        digits = self.ids.hex()
        size = 2 * PIN_BYTES
        return PinsPage(
            version=self.version,
            total=self.count,
            ids=tuple(digits[at : at + size] for at in range(0, len(digits), size)),
        )


class PinsPage(Message):
    """Some of the pinned files: the hexadecimal digits of their ids, one after the other. Older masters tell `ids`."""

    version: Count
    total: Count = 0
    digits: str = Field(default="", max_length=2 * PIN_BYTES * PINS_OF_A_PAGE, pattern="^([0-9a-f]{32})*$")
    ids: tuple[str, ...] = ()


class DrainOrder(Message):
    """A worker that is to hand its blocks over and end; or, with `cancel`, to stay after all."""

    id: Name
    cancel: bool = False


class LoadAction(StrEnum):
    """The work of a load on its paths."""

    LOAD = "load"
    EVICT = "evict"
    UNPIN = "unpin"


class LoadOrder(Message):
    """A load to start. Paths are percent-encoded; none is the whole dataset."""

    action: LoadAction = LoadAction.LOAD
    paths: tuple[Annotated[str, StringConstraints(max_length=LONGEST_PATH)], ...] = Field(
        default=(), max_length=MOST_PATHS
    )
    replicas: Annotated[int, Field(ge=1, le=16)] | None = None
    rate_bytes_per_s: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    verify: bool = False
    pin: bool = False

    @property
    def raw_paths(self) -> list[bytes]:
        """The paths as the engine wants them; the empty one is the whole dataset."""
        return decode_paths(self.paths) or [b""]


class LoadState(StrEnum):
    """The state of a load. `waiting` is before its start, or for a master that starts again."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """True when nothing more happens."""
        return self in (LoadState.DONE, LoadState.FAILED, LoadState.CANCELLED)


class LoadFault(Message):
    """The fault of one file of a load."""

    path: str = ""
    message: str = ""


class LoadReport(Message):
    """A load and how far it is."""

    id: Name
    order: LoadOrder
    state: LoadState = LoadState.WAITING
    done_bytes: Count = 0
    total_bytes: Count = 0
    done_files: Count = 0
    total_files: Count = 0
    origin_bytes: Count = 0
    did_not_fit_bytes: Count = 0
    errors: tuple[LoadFault, ...] = ()
    message: str = ""
    created_at_s: Moment = 0.0
    ended_at_s: Moment | None = None

    @property
    def complete(self) -> bool:
        """True when all that was ordered is done."""
        ended = self.state is LoadState.DONE and not self.errors and not self.did_not_fit_bytes
        return ended and self.done_bytes >= self.total_bytes and self.done_files >= self.total_files


Seconds = Annotated[float, Field(ge=0, lt=2**53, allow_inf_nan=False)]
Sentence = Annotated[str, StringConstraints(max_length=4096)]
MOST_REPORTED_WORKERS = 4096
MOST_SAMPLES = 512


class ReportedLevel(Message):
    """One cache level of a worker, for the planner."""

    medium: Name
    quota_bytes: Count = 0


class ReportedWorker(Message):
    """A worker, for the planner."""

    id: Name
    node: Line
    state: Name
    is_listed: bool = False
    started_at_s: Seconds = 0.0
    cached_bytes: Count = 0
    origin_silent_s: Seconds = 0.0
    levels: tuple[ReportedLevel, ...] = Field(default=(), max_length=MOST_LEVELS)


class ReportedSnapshot(Message):
    """The snapshot in use, for the planner."""

    version: Count = 0
    files: Count = 0
    data_bytes: Count = 0


class ClusterReport(Message):
    """The report for a planner: the status without the parts for people alone. A report of any maker is small and
    sound."""

    now_s: Seconds
    cached_bytes: Count = 0
    capacity_bytes: Count = 0
    has_listed: bool = True
    refresh_error: Sentence | None = None
    refresh_error_kind: Sentence | None = None
    snapshot: ReportedSnapshot | None = None
    workers: tuple[ReportedWorker, ...] = Field(default=(), max_length=MOST_REPORTED_WORKERS)
    throughput: tuple[tuple[Seconds, Seconds, Seconds, Seconds], ...] = Field(
        default=(), max_length=MOST_SAMPLES
    )


class Refreshed(Message):
    """The changes of a new snapshot."""

    version: Count = 0
    files: Count = 0
    bytes: Count = 0
    added: Count = 0
    removed: Count = 0
    changed: Count = 0
    notices: tuple[Line, ...] = ()


class Fault(Message):
    """An error of `headrace.errors` on its way to another process."""

    kind: Line = "Unexpected"
    message: str = Field(default="", max_length=2000)
    hint: str | None = Field(default=None, max_length=2000)


def encode_paths(paths: Iterable[bytes]) -> tuple[str, ...]:
    """Paths as they travel."""
    return tuple(quote_from_bytes(path, safe="/ ") for path in paths)


def decode_paths(paths: Iterable[str]) -> list[bytes]:
    """Paths as they are."""
    return [unquote_to_bytes(path).strip(b"/") for path in paths]


def shown_path(path: str) -> str:
    """A travelling path for people."""
    return os.fsdecode(unquote_to_bytes(path)).encode("utf-8", "replace").decode() or "/"

"""The report of an engine: the typed form of the JSON that the native `Engine.status` answers.

Fields that a newer engine adds are ignored, fields that an older one lacks have a default: a command line and a mount
of different versions understand each other.
"""

from __future__ import annotations

from pydantic import ConfigDict, Field

from headrace.hit_ratio import hit_ratio
from headrace.process.deferred_model import DeferredModel
from headrace.settings.engine import Medium
from headrace.settings.origins import Exclude


class Report(DeferredModel):
    """A part of a report; frozen."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class OriginReport(Report):
    """One origin: its canonical name without secrets, and its place in the tree."""

    path: str = Field(default="", description="Folder of the dataset in which it appears; empty for the top")
    uri: str = Field(description="Its address, without credentials")
    notice: str | None = Field(
        default=None, description="Cause of slow listing, once this process has seen that"
    )


EXCLUDED = "excluded"
"""The rule of what nobody wanted."""


class RejectedKey(Report):
    """A key of the origin that no file system can hold, and the rule that turned it away."""

    key: str = Field(description="The key, with invalid bytes escaped")
    reason: str = Field(description="Name of the rule")


class SnapshotReport(Report):
    """The names in use. `rejected` is a bounded sample of the `rejected_keys`."""

    version: int = Field(default=0, description="Number of the snapshot; it grows with each refresh")
    files: int = Field(default=0, description="Files in the snapshot")
    directories: int = Field(default=0, description="Folders in the snapshot")
    bytes: int = Field(default=0, description="Bytes of all files")
    taken_at_s: float = Field(default=0.0, description="Time of the snapshot, in seconds since 1970")
    refresh_error: str | None = Field(default=None, description="Why the last try for a newer one failed")
    exclude: tuple[Exclude, ...] = Field(
        default=(), description="Exclusions of each origin; empty where nothing was"
    )
    rejected_keys: int = Field(
        default=0, description="Keys of the origin that no file system can hold, without what was excluded"
    )
    rejected_by_rule: tuple[tuple[str, int], ...] = Field(
        default=(), description="Number of keys that met each rule"
    )
    rejected: tuple[RejectedKey, ...] = Field(default=(), description="Up to 100 of them for each rule")


class LevelReport(Report):
    """One cache level."""

    medium: Medium = Field(description="MEM, SSD or HDD")
    folders: tuple[str, ...] = Field(default=(), description="Its cache folders")
    quota_bytes: int = Field(description="Most bytes that it may take")
    used_bytes: int = Field(description="Bytes that it takes on its disk")
    content_bytes: int = Field(default=0, description="Bytes of file content in it")
    blocks: int = Field(default=0, description="Blocks in it")
    trouble: str | None = Field(
        default=None,
        description="Why a disk of it takes nothing new at present, such as disk-full or read-only",
    )


class ReadReport(Report):
    """Bytes since the engine started. The bytes that the kernel reads from cache files itself are estimated."""

    hit_bytes: int = Field(default=0, description="Bytes that were here when a reader asked for them")
    miss_bytes: int = Field(default=0, description="Bytes that readers had to wait for the origin for")
    errors: int = Field(default=0, description="Reads that failed")
    passthrough_opens: int = Field(default=0, description="Opens whose reads the kernel serves by itself")
    passthrough_estimated_bytes: int = Field(
        default=0,
        description="Bytes that the kernel read itself: each such open counts as one read of the whole file",
    )
    origin_bytes: int = Field(default=0, description="Bytes of file content received from the origin")
    loaded_bytes: int = Field(default=0, description="Those of them that a warm-up asked for, and no reader")
    origin_requests: int = Field(default=0, description="Read requests sent to the origin")
    origin_retries: int = Field(default=0, description="Requests to the origin that were tried again")
    cluster_bytes: int = Field(default=0, description="Bytes received from workers of other machines")
    through_workers: bool = Field(
        default=False,
        description="Workers of a cluster read for it: they alone know what came from the origin",
    )

    @property
    def hit_ratio(self) -> float | None:
        """Share of the bytes read that the origin did not send for it; `None` before a read and in a cluster."""
        if self.through_workers:
            return None
        return hit_ratio(self.read_bytes, self.origin_bytes - self.loaded_bytes)

    @property
    def read_bytes(self) -> int:
        """Bytes that programs read; those that the kernel read itself as estimated."""
        return self.hit_bytes + self.miss_bytes + self.passthrough_estimated_bytes


class BudgetReport(Report):
    """One hard limit: memory in bytes, open cache files, inodes that the kernel holds."""

    name: str = Field(description="Limited resource")
    limit: int = Field(description="Most that may be taken")
    used: int = Field(description="Present use")
    waits: int = Field(default=0, description="Number of times that somebody had to wait for it")


class MountReport(Report):
    """One mount of the engine."""

    mountpoint: str = Field(description="Its place")
    mode: str = Field(description="How the kernel is served: passthrough, elide, classic or view")


class UnpublishedReport(Report):
    """A file that was written and closed, and that the origin does not hold."""

    path: str = Field(description="Its name in the dataset")
    bytes: int = Field(default=0, description="Its size")
    file: str = Field(default="", description="Place of its content on this machine")
    error: str | None = Field(
        default=None, description="Why it is not in the origin; none while that was not tried again"
    )
    was_open: bool = Field(
        default=False, description="True for one that was open when its mount ended: it may be half written"
    )


class WritingReport(Report):
    """How it stands with what programs wrote."""

    folder: str = Field(default="", description="Folder of the written files on this machine")
    staged_files: int = Field(default=0, description="Written files whose content is on this machine")
    staged_bytes: int = Field(default=0, description="Bytes of those")
    open_files: int = Field(default=0, description="Files that programs have open to write")
    unpublished: tuple[UnpublishedReport, ...] = Field(
        default=(), description="Files that are closed, and not in the origin"
    )
    undeleted: tuple[str, ...] = Field(
        default=(), description="Names that are gone here, and not yet in the origin"
    )


class MismatchReport(Report):
    """A file of which other bytes came than the origin's checksum says."""

    path: str = Field(description="Its name at the origin")
    checksum: str = Field(description="The kind of checksum that differed")


class ProofReport(Report):
    """How whole files in the cache compare with the checksums that their origins keep."""

    proven_bytes: int = Field(default=0, description="Bytes of files that match the origin's checksum")
    unsummed_bytes: int = Field(
        default=0, description="Bytes of whole files that the origin keeps no checksum of"
    )
    uncompared_bytes: int = Field(
        default=0, description="Bytes of whole files that were not compared since the process started"
    )
    partial_bytes: int = Field(default=0, description="Bytes of files that are not here as a whole")
    mismatches: int = Field(default=0, description="Number of received files that did not match")
    mismatched: tuple[MismatchReport, ...] = Field(default=(), description="The last files that did not")


class EngineReport(Report):
    """Everything that an engine says of itself."""

    name: str = Field(description="Name of the dataset")
    pid: int = Field(description="Process that owns the cache")
    origins: tuple[OriginReport, ...] = Field(default=(), description="Source of the data")
    snapshot: SnapshotReport = Field(default_factory=SnapshotReport, description="The names in use")
    cached_bytes: int = Field(default=0, description="Bytes of the snapshot's files that are in the cache")
    cached_files: int = Field(default=0, description="Files of the snapshot that are in the cache as a whole")
    proofs: ProofReport = Field(
        default_factory=ProofReport, description="How the cache compares with the origin's checksums"
    )
    levels: tuple[LevelReport, ...] = Field(default=(), description="Cache levels, the fastest first")
    reads: ReadReport = Field(default_factory=ReadReport, description="Bytes read, by source")
    budgets: tuple[BudgetReport, ...] = Field(
        default=(), description="Hard limits, and how much of each is used"
    )
    corrupt_blocks: int = Field(default=0, description="Blocks whose checksum did not match, since the start")
    evicted_blocks: int = Field(default=0, description="Blocks evicted since the start")
    mounts: tuple[MountReport, ...] = Field(default=(), description="Mounts of this engine")
    writing: WritingReport | None = Field(
        default=None, description="Files that programs wrote; of a writable mount"
    )

    @property
    def cached_share(self) -> float | None:
        """Share of the snapshot's bytes that are in the cache; `None` for an empty snapshot."""
        return self.cached_bytes / self.snapshot.bytes if self.snapshot.bytes else None


class WorkerReport(Report):
    """The report of a worker on itself; bytes of reads are counted since it started."""

    levels: tuple[LevelReport, ...] = ()
    capacity_bytes: int = 0
    cached_bytes: int = 0
    pinned_bytes: int = 0
    epoch: int = 0
    hit_bytes: int = 0
    peer_bytes: int = 0
    origin_bytes: int = 0
    loaded_bytes: int = Field(default=0, description="Those of them that a load asked for, and no reader")
    corrupt_blocks: int = 0
    evicted_blocks: int = 0
    hanging_folders: tuple[str, ...] = Field(
        default=(), description="Cache folders whose disk does not answer"
    )


class JobError(Report):
    """The fault of one file of a job."""

    path: str = Field(description="Path of the file")
    message: str = Field(description="Failures and their causes")


class JobReport(Report):
    """How far a warm-up or verification is."""

    state: str = Field(default="running", description="running, done, failed or cancelled")
    done_bytes: int = Field(default=0, description="Bytes that are done")
    total_bytes: int = Field(default=0, description="Bytes of all files of the job")
    done_files: int = Field(default=0, description="Files that are done")
    total_files: int = Field(default=0, description="Files of the job")
    origin_bytes: int = Field(default=0, description="Bytes fetched from the origin for it")
    did_not_fit_bytes: int = Field(default=0, description="Bytes that found no room in the cache")
    errors: tuple[JobError | str, ...] = Field(default=(), description="Faults by file")
    message: str = Field(default="", description="One sentence for a person, once the job has ended")
    cached_by_worker: dict[str, int] = Field(
        default_factory=dict,
        exclude=True,
        description="Of a load: all that each worker has cached, by its id",
    )

    @property
    def complete(self) -> bool:
        """True when every byte is in and nothing went wrong."""
        ended = self.state == "done" and not self.errors and not self.did_not_fit_bytes
        return ended and self.done_bytes >= self.total_bytes and self.done_files >= self.total_files


class RefreshReport(Report):
    """The changes of a new snapshot."""

    version: int = Field(default=0, description="Number of the new snapshot")
    added: int = Field(default=0, description="Files and links that are new")
    removed: int = Field(default=0, description="Files and links that are gone")
    changed: int = Field(default=0, description="Files and links that are another version")
    files: int = Field(default=0, description="Files in the new snapshot")
    bytes: int = Field(default=0, description="Bytes of all its files")
    notices: tuple[str, ...] = Field(
        default=(), description="Causes of slow listing, each by its name; a master's alone"
    )

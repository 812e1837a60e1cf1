"""The report of an engine: the typed form of the JSON that the native `Engine.status` answers.

Fields that a newer engine adds are ignored, fields that an older one lacks have a default: a command line and a mount
of different versions understand each other.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from headrace.settings.engine import Medium


class Report(BaseModel):
    """A part of a report."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class OriginReport(Report):
    """One origin: its canonical name without secrets, and its place in the tree."""

    path: str = ""
    uri: str


class RejectedKey(Report):
    """A key of the origin that no file system can hold, and the rule that turned it away."""

    key: str
    reason: str


class SnapshotReport(Report):
    """The names in use. `rejected` is a bounded sample of the `rejected_keys`."""

    version: int = 0
    files: int = 0
    directories: int = 0
    bytes: int = 0
    taken_at_s: float = Field(default=0.0, description="Seconds since 1970")
    refresh_error: str | None = Field(default=None, description="Why the last try for a newer one failed")
    rejected_keys: int = 0
    rejected_by_rule: tuple[tuple[str, int], ...] = ()
    rejected: tuple[RejectedKey, ...] = ()


class LevelReport(Report):
    """One cache level."""

    medium: Medium
    folders: tuple[str, ...] = ()
    quota_bytes: int
    used_bytes: int
    content_bytes: int = 0
    blocks: int = 0


class ReadReport(Report):
    """Bytes since the engine started. Passthrough reads are the kernel's own and not counted."""

    hit_bytes: int = 0
    miss_bytes: int = 0
    errors: int = 0
    passthrough_opens: int = 0
    origin_bytes: int = 0
    origin_requests: int = 0
    origin_retries: int = 0
    cluster_bytes: int = Field(default=0, description="Bytes received from workers of other machines")

    @property
    def hit_ratio(self) -> float | None:
        """Share of the bytes read that the cache had; `None` before the first read."""
        total = self.hit_bytes + self.miss_bytes
        return self.hit_bytes / total if total else None


class BudgetReport(Report):
    """One hard limit: memory in bytes, open cache files, inodes that the kernel holds."""

    name: str
    limit: int
    used: int
    waits: int = Field(default=0, description="How often somebody had to wait for it")


class MountReport(Report):
    """One mount of the engine."""

    mountpoint: str
    mode: str


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
    mismatches: int = Field(default=0, description="How often a file that came did not match")


class EngineReport(Report):
    """Everything that an engine says of itself."""

    name: str
    pid: int
    origins: tuple[OriginReport, ...] = ()
    snapshot: SnapshotReport = SnapshotReport()
    cached_bytes: int = Field(default=0, description="Bytes of the snapshot's files that are in the cache")
    cached_files: int = Field(default=0, description="Files of the snapshot that are in the cache as a whole")
    proofs: ProofReport = ProofReport()
    levels: tuple[LevelReport, ...] = ()
    reads: ReadReport = ReadReport()
    budgets: tuple[BudgetReport, ...] = ()
    corrupt_blocks: int = 0
    evicted_blocks: int = 0
    mounts: tuple[MountReport, ...] = ()

    @property
    def cached_share(self) -> float | None:
        """Share of the snapshot's bytes that are in the cache; `None` for an empty snapshot."""
        return self.cached_bytes / self.snapshot.bytes if self.snapshot.bytes else None


class WorkerReport(Report):
    """What a worker says of itself; bytes of reads are counted since it started."""

    levels: tuple[LevelReport, ...] = ()
    capacity_bytes: int = 0
    cached_bytes: int = 0
    pinned_bytes: int = 0
    epoch: int = 0
    hit_bytes: int = 0
    peer_bytes: int = 0
    origin_bytes: int = 0
    corrupt_blocks: int = 0
    evicted_blocks: int = 0


class JobError(Report):
    """What went wrong with one file of a job."""

    path: str
    message: str


class JobReport(Report):
    """How far a warm-up or verification is. `state` is running, done, failed or cancelled."""

    state: str = "running"
    done_bytes: int = 0
    total_bytes: int = 0
    done_files: int = 0
    total_files: int = 0
    origin_bytes: int = 0
    did_not_fit_bytes: int = Field(default=0, description="Bytes that found no room in the cache")
    errors: tuple[JobError | str, ...] = ()
    message: str = Field(default="", description="One sentence for a person, once the job has ended")

    @property
    def complete(self) -> bool:
        """True when every byte is in and nothing went wrong."""
        ended = self.state == "done" and not self.errors and not self.did_not_fit_bytes
        return ended and self.done_bytes >= self.total_bytes and self.done_files >= self.total_files


class RefreshReport(Report):
    """What a new snapshot changed."""

    version: int = 0
    added: int = 0
    removed: int = 0
    changed: int = 0
    files: int = 0
    bytes: int = 0

//! The report of an engine on itself: one serialisable record, without secrets.

use serde::Serialize;

use crate::budget::Budget;
use crate::config::Exclude;
use crate::metrics::Metrics;
use crate::store::LevelUsage;
use crate::transfer::Mismatch;
use crate::writing::WritingStatus;

/// Everything, as `headrace status --json` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    pub name: String,
    pub pid: u32,
    pub origins: Vec<OriginStatus>,
    pub snapshot: SnapshotStatus,
    /// Bytes of the current snapshot's files that are in the cache.
    pub cached_bytes: u64,
    /// Files of the current snapshot that are in the cache as a whole.
    pub cached_files: u64,
    pub levels: Vec<LevelStatus>,
    pub proofs: ProofStatus,
    pub corrupt_blocks: u64,
    pub evicted_blocks: u64,
    pub reads: ReadStatus,
    pub budgets: Vec<BudgetStatus>,
    pub mounts: Vec<MountStatus>,
    /// Where programs may write.
    pub writing: Option<WritingStatus>,
}

/// How the files of the snapshot that are in the cache as a whole compare with the checksums that their origins keep.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProofStatus {
    /// Bytes of files that match.
    pub proven_bytes: u64,
    /// Bytes of files that the origin keeps no checksum of.
    pub unsummed_bytes: u64,
    /// Bytes of files that were not compared since the process started.
    pub uncompared_bytes: u64,
    /// Bytes of files that are not here as a whole.
    pub partial_bytes: u64,
    /// How often a file that came did not match.
    pub mismatches: u64,
    /// The last files that did not.
    pub mismatched: Vec<Mismatch>,
}

/// An origin's canonical name, and the path it appears at.
#[derive(Debug, Clone, Serialize)]
pub struct OriginStatus {
    pub path: String,
    pub uri: String,
    /// What makes it slow to list, once that was seen.
    pub notice: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct SnapshotStatus {
    pub version: u64,
    pub files: u64,
    pub directories: u64,
    pub bytes: u64,
    /// Seconds since 1970.
    pub taken_at_s: f64,
    /// Size of the snapshot file.
    pub file_bytes: u64,
    /// Why the last attempt at a newer snapshot failed, if it did.
    pub refresh_error: Option<String>,
    /// What was not wanted of each origin when it was listed; empty where all of each was.
    pub exclude: Vec<Exclude>,
    /// What no file can be, without what was excluded.
    pub rejected_keys: u64,
    /// How many by rule.
    pub rejected_by_rule: Vec<(String, u64)>,
    /// A bounded sample.
    pub rejected: Vec<RejectedKey>,
}

#[derive(Debug, Clone, Serialize)]
pub struct RejectedKey {
    pub key: String,
    pub reason: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct LevelStatus {
    pub folders: Vec<String>,
    #[serde(flatten)]
    pub usage: LevelUsage,
}

#[derive(Debug, Clone, Serialize)]
pub struct ReadStatus {
    pub hit_bytes: u64,
    pub miss_bytes: u64,
    pub passthrough_opens: u64,
    /// What the kernel reads from cache files itself it does not tell: each such open counts as one read of all.
    pub passthrough_estimated_bytes: u64,
    pub errors: u64,
    pub origin_bytes: u64,
    /// Those of them that a warm-up asked for.
    pub loaded_bytes: u64,
    pub origin_requests: u64,
    pub origin_retries: u64,
    /// Received from workers of a cluster.
    pub cluster_bytes: u64,
    /// Workers read for this engine: they alone know what came from the origin.
    pub through_workers: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct BudgetStatus {
    pub name: &'static str,
    pub limit: u64,
    pub used: u64,
    pub waits: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct MountStatus {
    pub mountpoint: String,
    pub mode: String,
}

impl ReadStatus {
    /// `errors` counts the reads that failed.
    pub fn of(metrics: &Metrics, errors: u64, through_workers: bool) -> Self {
        ReadStatus {
            hit_bytes: metrics.read_hit_bytes.get(),
            miss_bytes: metrics.read_miss_bytes.get(),
            errors,
            passthrough_opens: metrics.passthrough_opens.get(),
            passthrough_estimated_bytes: metrics.passthrough_estimated_bytes.get(),
            origin_bytes: metrics.origin_bytes.get(),
            loaded_bytes: metrics.origin_loaded_bytes.get(),
            origin_requests: metrics.origin_requests.get(),
            origin_retries: metrics.origin_retries.get(),
            cluster_bytes: metrics.cluster_read_bytes.get().saturating_sub(metrics.cluster_own_node_bytes.get()),
            through_workers,
        }
    }
}

impl BudgetStatus {
    pub fn of(name: &'static str, budget: &Budget) -> Self {
        BudgetStatus { name, limit: budget.limit(), used: budget.used(), waits: budget.waits() }
    }
}

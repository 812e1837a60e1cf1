//! Gathers what an owner tells of itself into `Status` and into the metrics' text.

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::coverage::Coverage;
use super::status::{
    BudgetStatus, LevelStatus, MountStatus, OriginStatus, ProofStatus, ReadStatus, RejectedKey, SnapshotStatus, Status,
};
use crate::budget::{Budget, Budgets};
use crate::config::EngineConfig;
use crate::error::ErrorKind;
use crate::fuse::MountHandle;
use crate::metrics::{LevelLabel, Metrics, ReasonLabel};
use crate::origin::Origin;
use crate::store::{Listed, Store};
use crate::transfer::Transfer;
use crate::vfs::Tree;
use crate::writing::WritableTree;

/// The name of the budget for inodes that the kernel holds.
const INODES: &str = "inodes";
const MEMORY: &str = "memory";

/// What a status is made from.
pub struct Facts<'a> {
    pub config: &'a EngineConfig,
    pub origins: &'a [Arc<dyn Origin>],
    pub snapshot_path: &'a Path,
    pub refresh_error: Option<String>,
    pub tree: &'a Tree,
    pub store: Option<&'a Store>,
    pub transfer: &'a Transfer,
    pub coverage: &'a Coverage,
    pub budgets: &'a Budgets,
    /// The part of the memory for replies to other processes of this machine.
    pub replies: &'a Budget,
    pub metrics: &'a Metrics,
    pub mounts: &'a [Arc<MountHandle>],
    pub written: Option<&'a WritableTree>,
}

impl Facts<'_> {
    pub fn status(self) -> Status {
        let cached = self.cached();
        Status {
            name: self.config.name.clone(),
            pid: std::process::id(),
            origins: self.origins(),
            cached_bytes: cached.bytes(),
            cached_files: cached.files,
            levels: self.levels(),
            proofs: self.proofs(&cached),
            corrupt_blocks: self.metrics.store_corrupt_blocks.get(),
            evicted_blocks: self.metrics.store_evicted_blocks.get(),
            reads: ReadStatus::of(self.metrics, read_errors(self.metrics), self.config.cluster.is_some()),
            budgets: self.budgets(),
            mounts: self.mounts.iter().map(|mount| mount_status(mount)).collect(),
            writing: self.written.map(WritableTree::status),
            snapshot: self.snapshot(),
        }
    }

    fn budgets(&self) -> Vec<BudgetStatus> {
        let mut budgets = named(self.budgets).map(|(name, budget)| BudgetStatus::of(name, budget));
        budgets.iter_mut().filter(|budget| budget.name == MEMORY).for_each(|budget| {
            budget.limit += self.replies.limit();
            budget.used += self.replies.used();
            budget.waits += self.replies.waits();
        });
        let held = kernel_inodes(self.mounts);
        budgets.iter_mut().filter(|budget| budget.name == INODES).for_each(|budget| budget.used = held);
        budgets.into()
    }

    fn origins(&self) -> Vec<OriginStatus> {
        let paths = self.config.origins.iter().map(|mount| mount.path.clone());
        let told = self.origins.iter().map(|origin| (origin.name().to_owned(), origin.notice()));
        paths.zip(told).map(|(path, (uri, notice))| OriginStatus { path, uri, notice }).collect()
    }

    fn snapshot(self) -> SnapshotStatus {
        let snapshot = self.tree.snapshot();
        let file = std::fs::metadata(self.snapshot_path).ok();
        let taken = file.as_ref().and_then(|file| file.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        let rejections = snapshot.rejections();
        let rejected_keys = rejections.unwished();
        let rejected = rejections.samples.into_iter().map(|(reason, key)| RejectedKey { key, reason });
        SnapshotStatus {
            version: snapshot.version(),
            files: snapshot.files(),
            directories: snapshot.directories(),
            bytes: snapshot.total_bytes(),
            taken_at_s: taken.map_or(0.0, |time| time.as_secs_f64()),
            file_bytes: file.map_or(0, |file| file.len()),
            refresh_error: self.refresh_error,
            exclude: snapshot.exclude().to_vec(),
            rejected_keys,
            rejected_by_rule: rejections.counts,
            rejected: rejected.collect(),
        }
    }

    /// What of the current snapshot is in the cache.
    fn cached(&self) -> Listed {
        self.store.map_or_else(Listed::default, |store| self.coverage.of(self.tree, store))
    }

    fn proofs(&self, cached: &Listed) -> ProofStatus {
        ProofStatus {
            proven_bytes: cached.proven_bytes,
            unsummed_bytes: cached.unsummed_bytes,
            uncompared_bytes: cached.uncompared_bytes,
            partial_bytes: cached.partial_bytes,
            mismatches: self.metrics.origin_checksum_mismatches.get(),
            mismatched: self.transfer.mismatches(),
        }
    }

    fn levels(&self) -> Vec<LevelStatus> {
        let usage = self.store.map(Store::usage).unwrap_or_default();
        let levels = usage.into_iter().zip(&self.config.cache);
        let folders = |level: &crate::config::LevelConfig| {
            level.folders.iter().map(|folder| folder.path.display().to_string()).collect()
        };
        levels.map(|(usage, level)| LevelStatus { folders: folders(level), usage }).collect()
    }
}

/// The values of all metrics, with the gauges that are only looked at when asked for.
pub fn metrics_text(
    metrics: &Metrics,
    budgets: &Budgets,
    replies: Option<&Budget>,
    store: Option<&Store>,
    mounts: &[Arc<MountHandle>],
) -> String {
    for (name, budget) in named(budgets) {
        let label = ReasonLabel { reason: name.to_owned() };
        let (used, limit) = match name {
            INODES => (kernel_inodes(mounts), budget.limit()),
            MEMORY => {
                let replies = replies.map_or((0, 0), |replies| (replies.used(), replies.limit()));
                (budget.used() + replies.0, budget.limit() + replies.1)
            }
            _ => (budget.used(), budget.limit()),
        };
        metrics.budget_used.get_or_create(&label).set(used);
        metrics.budget_limit.get_or_create(&label).set(limit);
    }
    for (number, level) in store.map(Store::usage).unwrap_or_default().into_iter().enumerate() {
        let label = LevelLabel { level: number as u32, medium: format!("{:?}", level.medium).to_uppercase() };
        metrics.store_used_bytes.get_or_create(&label).set(level.used_bytes);
        metrics.store_quota_bytes.get_or_create(&label).set(level.quota_bytes);
        metrics.store_blocks.get_or_create(&label).set(level.blocks);
    }
    metrics.encode()
}

fn named(budgets: &Budgets) -> [(&'static str, &Budget); 3] {
    [(MEMORY, &budgets.memory), ("descriptors", &budgets.descriptors), (INODES, &budgets.inodes)]
}

/// Inodes that the kernel holds of all mounts: it says when it lets go, so they are counted there and not by permits.
fn kernel_inodes(mounts: &[Arc<MountHandle>]) -> u64 {
    mounts.iter().map(|mount| mount.kernel_lookups()).sum()
}

fn read_errors(metrics: &Metrics) -> u64 {
    let kinds = ErrorKind::ALL.iter().map(|row| ReasonLabel { reason: row.0.name() });
    kinds.filter_map(|label| metrics.read_errors.get(&label).map(|counter| counter.get())).sum()
}

fn mount_status(mount: &MountHandle) -> MountStatus {
    MountStatus { mountpoint: mount.mountpoint().display().to_string(), mode: mount.mode().to_string() }
}

//! The tree of a dataset that programs may write to: what must be so, and how it is opened.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::budget::Budgets;
use crate::config::{EngineConfig, Medium, OriginConfig, SnapshotPolicy};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::origin::{Origin, Target, open_writable};
use crate::vfs::Tree;
use crate::writing::{Parts, WritableTree, WritingOptions};

/// Uploads of larger files go in parts of this size.
const PART_BYTES: u64 = 16 << 20;
/// Files that the origin holds stay on the disk up to so many bytes where there is no cache.
const KEPT_BYTES: u64 = 4 << 30;

/// Refuses what a mount cannot write to, in words.
pub fn check(config: &EngineConfig) -> Result<()> {
    let refuse = |message: &str, hint: &str| Err(Error::config(message).with_hint(hint.to_owned()));
    let [mount] = &config.origins[..] else {
        return refuse("a writable mount has one origin", "mount each origin by itself");
    };
    if !mount.path.is_empty() {
        return refuse("the origin of a writable mount is its top folder", "give the ORIGIN without a NAME=");
    }
    if !mount.exclude.patterns.is_empty() {
        return refuse(
            "a writable mount shows everything: a file of an excluded name would be lost to sight once it is written",
            "mount without --exclude",
        );
    }
    if config.cluster.is_some() || matches!(mount.origin, OriginConfig::Cluster { .. }) {
        return refuse("a member of a cluster cannot be written to yet", "mount the origin itself, without --cluster");
    }
    if config.snapshot != SnapshotPolicy::Refresh {
        return refuse(
            "a writable mount lists its origin when it begins, so that it never overwrites what it has not seen",
            "mount without --snapshot",
        );
    }
    Ok(())
}

/// The place that is written to; refused in words where it cannot be.
pub fn open_target(config: &EngineConfig, metrics: &Metrics, runtime: &Handle) -> Result<Arc<dyn Target>> {
    let _within = runtime.enter();
    let Some(mount) = config.origins.first() else { return Err(Error::config("a dataset needs at least one origin")) };
    open_writable(&mount.origin, &config.transfer, metrics)
}

/// Fails when nothing can be written there.
pub fn try_writing(target: &Arc<dyn Target>, runtime: &Handle) -> Result<()> {
    runtime.block_on(target.try_writing()).map_err(|error| {
        let kind = error.kind();
        Error::new(kind, format!("{} cannot be written to: {error}", target.name()))
            .with_hint("mount without --writable, or with keys that may write")
    })
}

/// The written files over `tree`.
pub fn open(
    config: &EngineConfig,
    target: Arc<dyn Target>,
    origin: Arc<dyn Origin>,
    tree: &Arc<Tree>,
    with: (&Budgets, &Metrics, &Handle),
    goes_on: bool,
) -> Result<Arc<WritableTree>> {
    let (budgets, metrics, runtime) = with;
    let (folder, kept_bytes) = place(config, target.name());
    let has_folders = matches!(config.origins.first().map(|mount| &mount.origin), Some(OriginConfig::Local { .. }));
    let options = WritingOptions { folder, part_bytes: PART_BYTES, kept_bytes, goes_on, has_folders };
    let (memory, metrics, runtime) = (budgets.memory.clone(), metrics.clone(), runtime.clone());
    let written = WritableTree::open(tree.clone(), Parts { target, origin, memory, metrics, runtime }, options)?;
    if !goes_on {
        written.begin_anew()?;
    }
    Ok(written)
}

/// Before programs are let in: what was closed and is not in the origin is put there.
pub fn finish_earlier(written: &WritableTree, runtime: &Handle) {
    runtime.block_on(async {
        written.clear_uploads().await;
        if let Err(error) = written.finish().await {
            tracing::error!("of an earlier mount: {error}");
        }
    });
}

/// On the disk of the cache; and how much of what the origin holds stays there.
fn place(config: &EngineConfig, target: &str) -> (PathBuf, u64) {
    let name = format!("staging-{}", &blake3::hash(target.as_bytes()).to_hex()[..16]);
    let disks = config.cache.iter().filter(|level| level.medium != Medium::Mem);
    match disks.flat_map(|level| &level.folders).next() {
        Some(folder) => (folder.path.join(name), folder.quota_bytes / 4),
        None => (config.state_directory.join(name), KEPT_BYTES),
    }
}

//! From configuration to open folders: everything that can be wrong with them is said here.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::StoreConfig;
use super::counters::{Counters, LevelGauges};
use super::folder::{Folder, StoreState, make_directory};
use super::levels::{Core, Level};
use super::{disk, eviction};
use crate::budget::{Budget, Budgets};
use crate::config::{FolderConfig, LevelConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Metrics;

/// Opens every folder of every level.
pub fn open(config: StoreConfig, budgets: &Budgets, metrics: &Metrics) -> Result<Core> {
    config.levels.iter().try_for_each(check_level)?;
    let mut config = config;
    let folders = || config.levels.iter().flat_map(|level| &level.folders);
    for folder in folders() {
        check_directory(&folder.path)?;
    }
    check_distinct(folders())?;
    check_quotas(folders())?;
    let shared = Arc::new(share(&config, budgets, metrics));
    let mut levels = Vec::new();
    for (number, level) in config.levels.drain(..).enumerate() {
        levels.push(open_level(number, level, &shared, metrics)?);
    }
    let core = Core { shared, levels, errands: OnceLock::new(), closed: AtomicBool::new(false) };
    // Compared was what lay in all folders together, of which some may have lost its part.
    core.shared.proofs.retain(|id| core.holds_all(id));
    Ok(core)
}

fn share(config: &StoreConfig, budgets: &Budgets, metrics: &Metrics) -> StoreState {
    let folders: usize = config.levels.iter().map(|level| level.folders.len()).sum();
    // An eighth stays free, for files that are pinned by long reads while others are opened.
    let descriptors = budgets.descriptors.limit();
    StoreState {
        block_size: config.block_size,
        policy: eviction::policy(config.policy),
        clock: AtomicU64::new(0),
        descriptors: budgets.descriptors.clone(),
        // What others hold for as long as they like leaves the other half to reads: without it, they would go to the origin.
        lent: Budget::count("lent descriptors", descriptors / 2),
        descriptor_share: ((descriptors - descriptors / 8) / folders.max(1) as u64).max(1),
        counters: Counters::new(metrics),
        started: Instant::now(),
        pins: Default::default(),
        proofs: Default::default(),
        wrong: Default::default(),
        list: Default::default(),
    }
}

fn open_level(number: usize, level: LevelConfig, shared: &Arc<StoreState>, metrics: &Metrics) -> Result<Level> {
    let quota_bytes = level.folders.iter().map(|folder| folder.quota_bytes).sum();
    let gauges = LevelGauges::new(metrics, number, level.medium, quota_bytes);
    let mut folders = Vec::new();
    for folder in &level.folders {
        let path = make_directory(&folder.path)?;
        let opened = Folder::open(&path, folder.quota_bytes, number, shared.clone(), gauges.clone())?;
        folders.push(Arc::new(opened));
    }
    Ok(Level { medium: level.medium, high: level.high, low: level.low, folders })
}

fn check_level(level: &LevelConfig) -> Result<()> {
    let (high, low) = (level.high, level.low);
    if !(0.0 < low && low <= high && high <= 1.0) {
        return Err(Error::config(format!(
            "cache level {:?}: low {low} and high {high} are no water marks",
            level.medium
        ))
        .with_hint("both are shares of the quota, with 0 < low <= high <= 1"));
    }
    if let Some(folder) = level.folders.iter().find(|folder| folder.quota_bytes == 0) {
        return Err(Error::config(format!("cache folder {} has a quota of 0 bytes", folder.path.display()))
            .with_hint("give it a quota, for example --cache /path:100Gi"));
    }
    Ok(())
}

fn check_directory(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(data) if !data.is_dir() => {
            let message = format!("cache folder {} is not a directory", path.display());
            Err(Error::new(ErrorKind::NotDirectory, message).with_hint("give the path of a folder to --cache"))
        }
        _ => make_directory(path).map(drop),
    }
}

fn check_distinct<'a>(folders: impl Iterator<Item = &'a FolderConfig>) -> Result<()> {
    let mut seen = HashSet::new();
    for folder in folders {
        let data = std::fs::metadata(&folder.path)
            .map_err(|error| Error::from_io("look at cache folder", &folder.path, error))?;
        if !seen.insert((data.dev(), data.ino())) {
            let message = format!("cache folder {} is given twice", folder.path.display());
            return Err(Error::config(message).with_hint("use each folder once"));
        }
    }
    Ok(())
}

/// No quota, nor all quotas on one file system together, may be larger than that file system.
fn check_quotas<'a>(folders: impl Iterator<Item = &'a FolderConfig>) -> Result<()> {
    let mut sums: HashMap<u64, u64> = HashMap::new();
    for folder in folders {
        let (size, device) = disk::file_system(&folder.path)
            .map_err(|error| Error::from_io("measure the file system of", &folder.path, error))?;
        let sum = sums.entry(device).or_default();
        *sum = sum.saturating_add(folder.quota_bytes);
        if size > 0 && *sum > size {
            return Err(too_large(folder, *sum, size));
        }
    }
    Ok(())
}

fn too_large(folder: &FolderConfig, sum: u64, size: u64) -> Error {
    let (place, quota) = (folder.path.display(), folder.quota_bytes);
    let message = if sum == quota {
        format!("the quota of cache folder {place} ({quota} bytes) is larger than its file system ({size} bytes)")
    } else {
        format!(
            "the quotas of {place} and its neighbours ({sum} bytes) are larger than their file system ({size} bytes)"
        )
    };
    Error::config(message).with_hint(format!("give it a quota below {size} bytes"))
}

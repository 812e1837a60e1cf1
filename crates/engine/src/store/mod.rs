//! The block store: levels of cache folders with quotas, eviction, checksums and warm restart. Never fetches.
//!
//! Inside a cache folder each file version has one sparse data file with its blocks at their natural place (so the kernel
//! can be given a whole file as it is), and one log says which blocks are really there. See `docs/format/cache-folder.md`.
//!
//! - `record`, `log`, `lock`, `layout`, `disk`: what lies on the disk;
//! - `index`, `part`, `weights`: what is where, in memory;
//! - `folder/`: one folder, all of the above together;
//! - `eviction/`: who gives way to whom, pure;
//! - `levels`, `placement`, `mover`, `listing`: several folders and levels.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::budget::Budgets;
use crate::config::{EvictionPolicy, LevelConfig};
use crate::error::Result;
use crate::ids::{BlockSize, FileId, FileKey};
use crate::metrics::Metrics;

mod counters;
mod disk;
mod errands;
mod eviction;
mod folder;
mod index;
mod layout;
mod levels;
mod listing;
mod lock;
mod log;
mod log_reader;
mod mover;
mod open;
mod part;
mod placement;
mod record;
mod weights;

pub use listing::CachedFile;

use self::folder::{Removal, Verdict};
use self::levels::Core;
use self::mover::Mover;

#[derive(Debug, Clone)]
pub struct StoreConfig {
    pub levels: Vec<LevelConfig>,
    pub block_size: BlockSize,
    pub policy: EvictionPolicy,
}

/// A block that is here and verified: `length` bytes of `file` from `offset`. Stays in place until dropped.
#[derive(Debug, Clone)]
pub struct BlockHandle {
    pub file: Arc<File>,
    pub offset: u64,
    pub length: u32,
    _pin: Arc<part::OpenFile>,
}

/// A whole file version in one local file, from byte 0, verified. Stays in place until dropped.
#[derive(Debug, Clone)]
pub struct WholeFile {
    pub file: Arc<File>,
    pub size: u64,
    _pin: Arc<part::OpenFile>,
}

/// Data files that stay in place until this is dropped.
#[derive(Debug)]
pub struct Held {
    _files: Vec<Arc<part::OpenFile>>,
}

/// What became of a block that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    Stored,
    /// It was there already.
    Present,
    /// Served but not kept: no level, no room that may be taken, or the disk failed. Never an error for the reader.
    Declined(&'static str),
}

/// Use of one level.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LevelUsage {
    pub medium: crate::config::Medium,
    pub quota_bytes: u64,
    pub used_bytes: u64,
    pub blocks: u64,
}

#[derive(Debug)]
pub struct Store {
    core: Arc<Core>,
    mover: Mover,
}

impl Store {
    /// Opens the folders, takes their locks (`Busy` names the holder), replays what earlier runs left.
    pub fn open(config: StoreConfig, budgets: Budgets, metrics: Metrics) -> Result<Arc<Self>> {
        let core = Arc::new(open::open(config, &budgets, &metrics)?);
        let mover = Mover::start(&core)?;
        Ok(Arc::new(Store { core, mover }))
    }

    /// The block, if here. A block read back from an earlier run, or whose file changed under us, is verified first;
    /// a corrupt one is dropped, counted, and `None`.
    pub fn get(&self, file: &FileId, index: u32) -> Option<BlockHandle> {
        self.core.get(file, index)
    }

    /// True when `get` would probably answer; no I/O, no verification, no recency.
    pub fn may_contain(&self, file: &FileId, index: u32) -> bool {
        self.core.open_folders().any(|folder| folder.may_contain(file, index))
    }

    /// Keeps a block whose content is `parts` in order.
    pub fn put(&self, key: &Arc<FileKey>, index: u32, parts: &[Bytes]) -> Put {
        let put = self.core.put(key, index, parts);
        if let Put::Declined(reason) = put {
            self.core.shared.counters.declined(reason);
        }
        put
    }

    /// The whole file version, if every block of it is here in one file. `None`, too, while more than 64 MiB of it are
    /// still to be verified after a restart; that is done in the background then.
    pub fn whole_file(&self, file: &FileId, size: u64) -> Option<WholeFile> {
        self.core.whole_file(file, size)
    }

    /// Keeps what is here of the file version in its place while the answer lives, verified or not.
    pub fn hold(&self, file: &FileId) -> Option<Held> {
        let files: Vec<_> = self.core.open_folders().filter_map(|folder| folder.hold(file)).collect();
        (!files.is_empty()).then_some(Held { _files: files })
    }

    /// Bytes of this file version that are here.
    pub fn cached_bytes(&self, file: &FileId) -> u64 {
        self.core.open_folders().map(|folder| folder.cached_bytes(file)).sum()
    }

    /// Drops all blocks of this file version that nobody is reading; returns the bytes given back.
    pub fn evict(&self, file: &FileId) -> u64 {
        let _open = self.core.gate.read();
        self.core.open_folders().map(|folder| folder.remove(file, None, Removal::Evict)).sum()
    }

    /// Reads every block of the file version back and compares checksums; drops what is wrong. (good, corrupt) blocks.
    pub fn verify(&self, file: &FileId) -> (u64, u64) {
        let (mut good, mut corrupt) = (0, 0);
        for folder in self.core.open_folders() {
            for index in folder.indices(file) {
                match folder.verify_block(file, index, true) {
                    Verdict::Good => good += 1,
                    Verdict::Corrupt => corrupt += 1,
                    Verdict::Absent => {}
                }
            }
        }
        (good, corrupt)
    }

    pub fn usage(&self) -> Vec<LevelUsage> {
        let level = |level: &self::levels::Level| LevelUsage {
            medium: level.medium,
            quota_bytes: level.folders.iter().map(|folder| folder.quota_bytes).sum(),
            used_bytes: level.folders.iter().map(|folder| folder.used()).sum(),
            blocks: level.folders.iter().map(|folder| folder.blocks()).sum(),
        };
        self.core.levels.iter().map(level).collect()
    }

    /// Writes what a restart needs and gives the folders free. Afterwards nothing is here and nothing is kept.
    pub fn close(&self) -> Result<()> {
        self.mover.stop();
        self.core.close()
    }

    /// True when another process may use `folder` (nobody holds its lock).
    pub fn is_free(folder: &Path) -> bool {
        lock::FolderLock::is_free(folder)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.mover.stop();
    }
}

//! The block store: levels of cache folders with quotas, eviction, checksums and warm restart. Never fetches.
//!
//! Signatures that other layers build on.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::budget::Budgets;
use crate::config::{EvictionPolicy, LevelConfig};
use crate::error::Result;
use crate::ids::{BlockSize, FileId, FileKey};
use crate::metrics::Metrics;

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
    _pin: Arc<()>,
}

/// A whole file version in one local file, from byte 0, verified. Stays in place until dropped.
#[derive(Debug, Clone)]
pub struct WholeFile {
    pub file: Arc<File>,
    pub size: u64,
    _pin: Arc<()>,
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
pub struct Store {}

impl Store {
    /// Opens the folders, takes their locks (`Busy` names the holder), replays what earlier runs left.
    pub fn open(_config: StoreConfig, _budgets: Budgets, _metrics: Metrics) -> Result<Arc<Self>> {
        unimplemented!()
    }

    /// The block, if here. A block read back from an earlier run, or whose file changed under us, is verified first;
    /// a corrupt one is dropped, counted, and `None`.
    pub fn get(&self, _file: &FileId, _index: u32) -> Option<BlockHandle> {
        unimplemented!()
    }

    /// True when `get` would probably answer; no I/O, no verification, no recency.
    pub fn may_contain(&self, _file: &FileId, _index: u32) -> bool {
        unimplemented!()
    }

    /// Keeps a block whose content is `parts` in order.
    pub fn put(&self, _key: &Arc<FileKey>, _index: u32, _parts: &[Bytes]) -> Put {
        unimplemented!()
    }

    /// The whole file version, if every block of it is here in one file.
    pub fn whole_file(&self, _file: &FileId, _size: u64) -> Option<WholeFile> {
        unimplemented!()
    }

    /// Bytes of this file version that are here.
    pub fn cached_bytes(&self, _file: &FileId) -> u64 {
        unimplemented!()
    }

    /// Drops all blocks of this file version that nobody is reading; returns the bytes given back.
    pub fn evict(&self, _file: &FileId) -> u64 {
        unimplemented!()
    }

    /// Reads every block of the file version back and compares checksums; drops what is wrong. (good, corrupt) blocks.
    pub fn verify(&self, _file: &FileId) -> (u64, u64) {
        unimplemented!()
    }

    pub fn usage(&self) -> Vec<LevelUsage> {
        unimplemented!()
    }

    /// Writes what a restart needs and gives the folders free.
    pub fn close(&self) -> Result<()> {
        unimplemented!()
    }

    /// True when another process may use `folder` (nobody holds its lock).
    pub fn is_free(_folder: &Path) -> bool {
        unimplemented!()
    }
}

//! The place of a cache folder, and what it has in common with the other folders of its store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::budget::Budget;
use crate::ids::{BlockSize, FileId};
use crate::store::counters::Counters;
use crate::store::eviction::{Eviction, Tick};
use crate::store::listed::List;
use crate::store::pins::Pins;
use crate::store::proofs::Proofs;
use crate::store::watch::DiskWatch;
use crate::store::wrong::WrongContent;
use crate::store::{disk, layout};

/// What all folders of a store have in common.
#[derive(Debug)]
pub struct StoreState {
    pub block_size: BlockSize,
    pub policy: Box<dyn Eviction>,
    pub clock: AtomicU64,
    pub descriptors: Budget,
    /// The share of them for files that the kernel and other processes were given.
    pub lent: Budget,
    /// Most data files that one folder keeps open.
    pub descriptor_share: u64,
    pub counters: Counters,
    pub started: Instant,
    pub pins: Pins,
    pub proofs: Proofs,
    pub wrong: WrongContent,
    pub list: List,
}

impl StoreState {
    pub fn now(&self) -> Tick {
        self.clock.load(Ordering::Relaxed)
    }

    /// Counts one more access, to this block.
    pub fn tick(&self, id: &FileId, index: u32) -> Tick {
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        self.policy.observe(block_hash(id, index), now);
        now
    }
}

/// One folder, as all of its parts see it.
#[derive(Debug)]
pub struct Place {
    pub path: PathBuf,
    pub watch: Arc<DiskWatch>,
    pub shared: Arc<StoreState>,
}

impl Place {
    /// Seconds since the store was opened.
    pub fn now_s(&self) -> u32 {
        self.shared.started.elapsed().as_secs() as u32
    }

    /// The same in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.shared.started.elapsed().as_millis() as u64
    }

    pub fn length_of(&self, size: u64, index: u32) -> u32 {
        self.shared.block_size.range(index, size).length() as u32
    }

    pub fn offset_of(&self, index: u32) -> u64 {
        u64::from(index) * u64::from(self.shared.block_size.bytes())
    }

    pub fn data_file(&self, id: &FileId) -> PathBuf {
        layout::data_file(&self.path, id)
    }
}

/// A hash of a block's identity. Ids are digests, so some of their bytes and the index, mixed, suffice.
fn block_hash(id: &FileId, index: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&id.0[4..12]);
    let mixed = (u64::from_le_bytes(bytes) ^ u64::from(index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// What a block takes of the quota.
pub fn charge(length: u32) -> u64 {
    disk::allocated(length)
}

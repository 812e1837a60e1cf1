//! The quota of a folder: what of it is taken, what is promised, and who may have the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::place::{Place, charge};
use super::promises::Promises;
use crate::ids::FileId;
use crate::store::counters::LevelGauges;
use crate::sync::Mutex;

/// The room of one folder, and what is counted of it.
#[derive(Debug)]
pub struct Room {
    pub quota_bytes: u64,
    place: Arc<Place>,
    gauges: LevelGauges,
    used: AtomicU64,
    blocks: AtomicU64,
    content_bytes: AtomicU64,
    promises: Mutex<Promises>,
}

impl Room {
    pub fn new(place: &Arc<Place>, quota_bytes: u64, gauges: LevelGauges) -> Self {
        Room {
            quota_bytes,
            place: place.clone(),
            gauges,
            used: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            content_bytes: AtomicU64::new(0),
            promises: Mutex::default(),
        }
    }

    /// Bytes of the quota that are taken.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Bytes of files that are here, without what pages are filled up with.
    pub fn held_bytes(&self) -> u64 {
        self.content_bytes.load(Ordering::Relaxed)
    }

    pub fn free(&self) -> u64 {
        self.quota_bytes.saturating_sub(self.used())
    }

    /// Free share of the quota, for choosing between folders.
    pub fn free_share(&self) -> f64 {
        self.free() as f64 / self.quota_bytes.max(1) as f64
    }

    /// True for files that are evicted as a whole, whoever holds them.
    pub fn is_small(&self, size: u64) -> bool {
        size <= self.quota_bytes / 32
    }

    /// Takes `bytes` of the quota, if they are free.
    pub fn reserve(&self, bytes: u64) -> bool {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.quota_bytes)
        });
        if taken.is_ok() {
            self.gauges.used_bytes.inc_by(bytes);
        }
        taken.is_ok()
    }

    /// Counts what an earlier run left, whether or not the quota has room for it.
    pub fn take_over(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.gauges.used_bytes.inc_by(bytes);
    }

    /// Gives bytes of the quota back.
    pub fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.gauges.used_bytes.dec_by(bytes);
    }

    pub fn count_blocks(&self, change: i64, content_change: i64) {
        self.content_bytes.fetch_add(content_change as u64, Ordering::Relaxed);
        self.blocks.fetch_add(change as u64, Ordering::Relaxed);
        if change >= 0 {
            self.gauges.blocks.inc_by(change as u64)
        } else {
            self.gauges.blocks.dec_by(change.unsigned_abs())
        };
    }

    /// True when a block of `id` may use free room because all of the file that is not here yet, `missing_bytes`, fits.
    pub fn admits_whole(&self, id: &FileId, missing_bytes: u64, length: u32) -> bool {
        let missing = missing_bytes.next_multiple_of(4096);
        self.promises.lock().admit_whole(id, charge(length), missing, self.free(), self.place.shared.now())
    }

    /// True when a block of `id` may use the folder's last room, though the file will not be whole.
    pub fn admits_spill(&self, id: &FileId, length: u32) -> bool {
        self.promises.lock().admit_spill(id, charge(length), self.free(), self.place.shared.now())
    }

    /// True when `bytes` are free and promised to no file that is being filled.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.promises.lock().unpromised(self.free(), bytes, self.place.shared.now()) >= bytes
    }

    /// Nothing of the file is here any more.
    pub fn forget_promise(&self, id: &FileId) {
        self.promises.lock().forget(id);
    }
}

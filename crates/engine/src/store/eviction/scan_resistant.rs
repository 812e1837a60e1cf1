//! The default: keeps what it has against a scan, so that a cache of half the dataset hits on half of every epoch.
//!
//! Each epoch reads each block once. Whatever is evicted during an epoch to admit another block of the same dataset
//! would have been hit before the newcomer is read again, so nothing resident gives way as long as it is part of what is
//! being read. A block that is no longer part of it shows by its silence: blocks come back within some gap (of at most
//! two epochs, when shuffled), learned from a sample of all blocks; a resident silent for clearly longer is free to go.

use std::sync::atomic::{AtomicU64, Ordering};

use super::reuse::Reuse;
use super::{Eviction, Mark, Tick};
use crate::sync::Mutex;

const UNKNOWN: u64 = u64::MAX;

#[derive(Debug)]
pub struct ScanResistant {
    reuse: Mutex<Reuse>,
    threshold: AtomicU64,
    /// Silence after which a resident may go.
    horizon: AtomicU64,
}

impl Default for ScanResistant {
    fn default() -> Self {
        let reuse = Reuse::default();
        ScanResistant {
            threshold: AtomicU64::new(reuse.threshold()),
            reuse: Mutex::new(reuse),
            horizon: AtomicU64::new(UNKNOWN),
        }
    }
}

impl Eviction for ScanResistant {
    fn observe(&self, block: u64, now: Tick) {
        if block > self.threshold.load(Ordering::Relaxed) {
            return;
        }
        let mut reuse = self.reuse.lock();
        reuse.note(block, now);
        self.threshold.store(reuse.threshold(), Ordering::Relaxed);
        // The maximum over the recent gaps costs a microsecond: not at every note.
        if now.is_multiple_of(16) || self.horizon.load(Ordering::Relaxed) == UNKNOWN {
            let horizon = reuse.longest_gap().map_or(UNKNOWN, |gap| gap + gap / 10 + 1);
            self.horizon.store(horizon, Ordering::Relaxed);
        }
    }

    fn surrender(&self, resident: Mark, now: Tick) -> Option<u64> {
        let idle = resident.idle(now);
        (idle > self.horizon.load(Ordering::Relaxed)).then_some(idle)
    }
}

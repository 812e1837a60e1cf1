//! A folder whose disk took nothing is left alone for a while, and looked at again meanwhile: a disk that was full, or was
//! mounted read-only, says by itself when it is well again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::place::Place;
use crate::store::counters as reasons;
use crate::store::disk;
use crate::sync::Mutex;

/// How long a folder whose disk failed is left alone.
const ASIDE_MS: u64 = 30_000;
/// How soon it is looked at again after a first failure; each further one in a row doubles that.
const FIRST_LOOK_MS: u64 = 1_000;
/// Free room, in blocks, at which a disk that was full is tried again.
const ROOM_BLOCKS: u64 = 4;

/// Whether the disk of one folder is left alone now.
#[derive(Debug)]
pub struct Aside {
    place: Arc<Place>,
    until_ms: AtomicU64,
    look_from_ms: AtomicU64,
    failures: AtomicU32,
    /// What the disk said last, until it takes something.
    trouble: Mutex<Option<&'static str>>,
}

impl Aside {
    pub fn new(place: &Arc<Place>) -> Self {
        Aside {
            place: place.clone(),
            until_ms: AtomicU64::new(0),
            look_from_ms: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            trouble: Mutex::new(None),
        }
    }

    /// True while the disk is left alone after a failure.
    pub fn is_aside(&self) -> bool {
        self.place.now_ms() < self.until_ms.load(Ordering::Relaxed)
    }

    /// Leaves the disk alone for a while. `trouble` is one of the reasons that blocks are declined for.
    pub fn set_aside(&self, trouble: &'static str, words: &str) {
        let now_ms = self.place.now_ms();
        *self.trouble.lock() = Some(trouble);
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let look_after_ms = (FIRST_LOOK_MS << failures.min(5)).min(ASIDE_MS);
        self.look_from_ms.store(now_ms + look_after_ms, Ordering::Relaxed);
        let before = self.until_ms.swap(now_ms + ASIDE_MS, Ordering::Relaxed);
        if before <= now_ms {
            let seconds = ASIDE_MS / 1000;
            tracing::warn!(
                "cache folder {}: {words}; nothing new is kept there for {seconds} s, or until there is room again",
                self.place.path.display()
            );
        }
    }

    /// The disk took something.
    pub fn note_well(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.end_trouble();
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Why the disk took nothing when it was last asked to, if it has not got over that. May wait for it.
    pub fn trouble(&self) -> Option<&'static str> {
        if !self.place.watch.hangs() {
            self.look_again();
        }
        *self.trouble.lock()
    }

    /// Ends the waiting of a folder whose disk says that it is well again. May wait for it.
    pub fn look_again(&self) {
        let Some(trouble) = *self.trouble.lock() else { return };
        if self.place.now_ms() >= self.look_from_ms.load(Ordering::Relaxed) && self.is_over(trouble) {
            self.end_trouble();
        }
    }

    fn is_over(&self, trouble: &str) -> bool {
        let room = |blocks: u64| blocks * u64::from(self.place.shared.block_size.bytes());
        match trouble {
            reasons::DISK_FULL => {
                self.place.watch.during(|| disk::room(&self.place.path)).is_ok_and(|free| free >= room(ROOM_BLOCKS))
            }
            reasons::READ_ONLY => self.place.watch.during(|| disk::is_writable(&self.place.path)),
            // Only a write tells.
            _ => false,
        }
    }

    fn end_trouble(&self) {
        *self.trouble.lock() = None;
        self.until_ms.store(0, Ordering::Relaxed);
    }
}

//! Least recently used: whatever was not used for longest gives way to anything new.

use super::{Eviction, Mark, Tick};

#[derive(Debug)]
pub struct Lru;

impl Eviction for Lru {
    fn observe(&self, _block: u64, _now: Tick) {}

    fn surrender(&self, resident: Mark, now: Tick) -> Option<u64> {
        Some(resident.idle(now))
    }
}

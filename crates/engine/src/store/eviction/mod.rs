//! The choice of the block that gives way: pure decisions on marks and ticks. Knows no files, no bytes and no clock.
//!
//! Time is counted in accesses ("ticks"). Each resident block carries a `Mark`; a policy updates it on use and says, for
//! a candidate drawn at random by the store, whether and how gladly it would be given up. So a policy needs no lists: the
//! memory for a block is its mark, and the quality is that of sampling (16 candidates a victim).

use std::fmt::Debug;

use crate::config::EvictionPolicy;

mod lfu;
mod lru;
mod reuse;
mod scan_resistant;
#[cfg(test)]
mod simulation;

pub use lfu::Lfu;
pub use lru::Lru;
pub use scan_resistant::ScanResistant;

/// Number of the access, counted by the store over all blocks.
pub type Tick = u64;

/// What is remembered of a resident block's use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Tick of the last use, in 40 bits: wraps after 10^12 accesses.
    pub last_use: Tick,
    /// How often it was used, as the policy counts it.
    pub frequency: u8,
}

/// A new use of a resident block: its mark afterwards, and how long it was idle before.
#[derive(Debug, Clone, Copy)]
pub struct Use {
    pub mark: Mark,
    pub gap: Tick,
}

/// How many blocks are drawn to find one victim.
pub const CANDIDATES: usize = 16;

const TICK_MASK: Tick = (1 << 40) - 1;

impl Mark {
    /// Accesses since the last use.
    pub fn idle(self, now: Tick) -> Tick {
        let idle = now.wrapping_sub(self.last_use) & TICK_MASK;
        // Another thread may have marked it a moment after `now` was read.
        if idle > TICK_MASK / 2 { 0 } else { idle }
    }
}

/// A way to choose what stays.
pub trait Eviction: Debug + Send + Sync {
    /// Notes that a block was used or offered, whether resident or not. `block` is a hash of its identity.
    fn observe(&self, block: u64, now: Tick);

    /// The mark of a block that comes in.
    fn admitted(&self, now: Tick) -> Mark {
        Mark { last_use: now & TICK_MASK, frequency: 1 }
    }

    /// The mark of a resident after one more use.
    fn used(&self, mark: Mark, now: Tick) -> Mark {
        Mark { last_use: now & TICK_MASK, frequency: mark.frequency.saturating_add(1) }
    }

    /// How gladly this resident would be given up for a block that is wanted now: the highest goes first. `None`: it
    /// stays, and the other is not kept.
    fn surrender(&self, resident: Mark, now: Tick) -> Option<u64>;

    /// True when a block of a slower level is worth the copy into a faster one, after a use that came `gap` accesses
    /// after the one before. `rival` must leave for it; `None`: there is free room.
    fn promotes(&self, mark: Mark, gap: Tick, rival: Option<Mark>, now: Tick) -> bool {
        mark.frequency >= 2 && rival.is_none_or(|rival| rival.idle(now) > gap && self.surrender(rival, now).is_some())
    }
}

/// The policy of this name.
pub fn policy(name: EvictionPolicy) -> Box<dyn Eviction> {
    match name {
        EvictionPolicy::ScanResistant => Box::new(ScanResistant::default()),
        EvictionPolicy::Lru => Box::new(Lru),
        EvictionPolicy::Lfu => Box::new(Lfu),
    }
}

/// True when a use so soon after the last is the same access going on: a reader that takes a block in small pieces must
/// not look like many readers. `residents` keeps the span small beside a small cache.
pub fn is_same_access(mark: Mark, now: Tick, residents: u64) -> bool {
    mark.idle(now) < (residents / 8).min(64)
}

//! Least frequently used, with ageing: a count halves for every stretch without use, so old fame fades.

use super::{Eviction, Mark, TICK_MASK, Tick};

/// After so many accesses to other blocks half of a count is forgotten. A guess: long beside an epoch of a small
/// dataset, short beside the life of a process.
const HALF_LIFE: Tick = 1 << 17;

#[derive(Debug)]
pub struct Lfu;

impl Lfu {
    fn aged(mark: Mark, now: Tick) -> u8 {
        mark.frequency.checked_shr((mark.idle(now) / HALF_LIFE).min(8) as u32).unwrap_or(0)
    }
}

impl Eviction for Lfu {
    fn observe(&self, _block: u64, _now: Tick) {}

    fn used(&self, mark: Mark, now: Tick) -> Mark {
        Mark { last_use: now & TICK_MASK, frequency: Self::aged(mark, now).saturating_add(1) }
    }

    /// The lowest count first; among equals the longest unused.
    fn surrender(&self, resident: Mark, now: Tick) -> Option<u64> {
        let rarity = u64::from(u8::MAX - Self::aged(resident, now));
        Some(rarity << 40 | resident.idle(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn often_used_outlives_recently_used() {
        let often = Mark { last_use: 10, frequency: 9 };
        let recent = Mark { last_use: 90, frequency: 1 };
        assert!(Lfu.surrender(often, 100) < Lfu.surrender(recent, 100));
    }

    #[test]
    fn old_fame_fades() {
        let famous = Mark { last_use: 0, frequency: 200 };
        let now = 9 * HALF_LIFE;
        assert!(Lfu.surrender(famous, now) > Lfu.surrender(Mark { last_use: now, frequency: 1 }, now));
        assert_eq!(Lfu.used(famous, now).frequency, 1);
    }
}

//! After how many accesses blocks come back, learned from a sample of all blocks, resident or not.
//!
//! A block is in the sample when its hash is below a threshold; the threshold falls as more blocks are seen, so the
//! memory is bounded (about 200 KB) whatever the dataset's size.

use std::collections::{HashMap, VecDeque};

use super::Tick;

const MAX_TRACKED: usize = 8192;
/// Recent gaps that the horizon rests on.
const GAPS: usize = 1024;
/// Fewer gaps than this tell nothing.
const MIN_GAPS: usize = 32;

/// The sample and the gaps seen in it.
#[derive(Debug)]
pub struct Reuse {
    /// Only hashes up to this are tracked.
    threshold: u64,
    last_use: HashMap<u64, Tick>,
    gaps: VecDeque<Tick>,
}

impl Default for Reuse {
    fn default() -> Self {
        Reuse { threshold: u64::MAX, last_use: HashMap::new(), gaps: VecDeque::new() }
    }
}

impl Reuse {
    /// The current threshold, for callers that would rather not take a lock in vain.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Notes a use of the block with this hash.
    pub fn note(&mut self, block: u64, now: Tick) {
        if block > self.threshold {
            return;
        }
        if let Some(before) = self.last_use.insert(block, now) {
            if self.gaps.len() == GAPS {
                self.gaps.pop_front();
            }
            self.gaps.push_back(now.saturating_sub(before));
        } else if self.last_use.len() > MAX_TRACKED {
            self.make_room(now);
        }
    }

    /// The longest gap among the recent ones: what was not used for clearly longer is not part of what goes on now.
    /// `None` while too few blocks have come back.
    pub fn longest_gap(&self) -> Option<Tick> {
        (self.gaps.len() >= MIN_GAPS).then(|| self.gaps.iter().copied().max().unwrap_or(0))
    }

    fn make_room(&mut self, now: Tick) {
        if let Some(longest) = self.longest_gap() {
            self.last_use.retain(|_, last_use| now.saturating_sub(*last_use) <= 4 * longest);
        }
        while self.last_use.len() > MAX_TRACKED * 3 / 4 {
            self.threshold /= 2;
            let threshold = self.threshold;
            self.last_use.retain(|block, _| *block <= threshold);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_bounded_and_gaps_right() {
        let mut reuse = Reuse::default();
        let blocks = 100_000u64;
        for now in 0..2 * blocks {
            reuse.note((now % blocks).wrapping_mul(0x9e37_79b9_7f4a_7c15), now);
        }
        assert!(reuse.last_use.len() <= MAX_TRACKED);
        assert_eq!(reuse.longest_gap(), Some(blocks));
    }

    #[test]
    fn blocks_that_never_return_tell_nothing() {
        let mut reuse = Reuse::default();
        (0..50_000u64).for_each(|now| reuse.note(now.wrapping_mul(0x9e37_79b9_7f4a_7c15), now));
        assert_eq!(reuse.longest_gap(), None);
    }
}

//! A data file as another process gets it, and which blocks in it are right. Knows no folders.

use std::fs::File;
use std::sync::Arc;

use super::blocks::Pin;
use super::errands::Errand;
use super::part::Descriptor;
use crate::budget::Permit;

/// Blocks that one map can name: 128 KiB of bits. Of larger files it shows a window around the wanted block.
const MAX_NAMED: u32 = 1 << 20;

/// Which blocks of a file version are meant: those from `first` on whose bits are set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockMap {
    first: u32,
    bits: Box<[u8]>,
}

impl BlockMap {
    /// Most bytes of bits.
    pub const MAX_BYTES: usize = (MAX_NAMED / 8) as usize;

    /// The map of `indices` (ascending) in a file of `count` blocks; of a very large file those near `wanted`.
    pub fn near(wanted: u32, count: u32, indices: impl Iterator<Item = u32>) -> Self {
        let last_start = count.saturating_sub(MAX_NAMED).next_multiple_of(8);
        let first = (wanted.saturating_sub(MAX_NAMED / 2) / 8 * 8).min(last_start);
        let mut bits = vec![0; count.saturating_sub(first).min(MAX_NAMED).div_ceil(8) as usize];
        for index in indices {
            let place = index.checked_sub(first).and_then(|place| bits.get_mut(place as usize / 8));
            place.into_iter().for_each(|byte| *byte |= 1 << ((index - first) % 8));
        }
        BlockMap { first, bits: bits.into() }
    }

    /// The map that `first` and `bytes` of another one make.
    pub fn from_parts(first: u32, bits: &[u8]) -> Self {
        BlockMap { first, bits: bits.into() }
    }

    pub fn first(&self) -> u32 {
        self.first
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bits
    }

    pub fn contains(&self, index: u32) -> bool {
        let place = index.checked_sub(self.first);
        let byte = place.and_then(|place| self.bits.get(place as usize / 8));
        byte.is_some_and(|byte| byte >> ((index - self.first) % 8) & 1 == 1)
    }

    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|byte| *byte == 0)
    }
}

/// A data file for another process: as long as any copy of the descriptor is open anywhere, the blocks named here stay
/// as they are, whatever becomes of this process.
#[derive(Debug)]
pub struct Loan {
    pub file: Arc<File>,
    /// Verified.
    pub blocks: BlockMap,
    /// All of the file version is here and verified, from byte 0 of the file on, and nothing else.
    pub whole: bool,
    /// Some blocks that are here are not named, because they are not verified yet.
    pub unverified: bool,
    /// Counts `file` among the open ones.
    pub(super) descriptor: Descriptor,
    pub(super) hold: LoanHold,
}

/// Keeps a data file from being evicted as long as another process has it on loan.
#[derive(Debug)]
pub struct LoanHold {
    pub(super) pin: Pin,
    pub(super) _lent: Permit,
    /// What is to be done when it is given back.
    pub(super) afterwards: Option<Errand>,
}

impl Loan {
    /// What is left to keep once the other process has its copy of the descriptor.
    pub fn into_hold(self) -> LoanHold {
        drop((self.file, self.descriptor));
        self.hold
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn map_holds_what_it_was_made_of(
            count in 1u32..5000, wanted in 0u32..5000, indices in prop::collection::btree_set(0u32..5000, 0..200),
        ) {
            let indices: Vec<u32> = indices.into_iter().filter(|index| *index < count).collect();
            let map = BlockMap::near(wanted, count, indices.iter().copied());
            let map = BlockMap::from_parts(map.first(), map.bytes());
            let found: Vec<u32> = (0..6000).filter(|index| map.contains(*index)).collect();
            prop_assert_eq!(map.is_empty(), indices.is_empty());
            prop_assert_eq!(found, indices);
        }

        #[test]
        fn map_of_a_huge_file_is_bounded_and_shows_the_wanted_block(
            count in MAX_NAMED..16 << 20, wanted in any::<prop::sample::Index>(),
        ) {
            let wanted = wanted.index(count as usize) as u32;
            let map = BlockMap::near(wanted, count, [0, wanted, count - 1].into_iter());
            prop_assert!(map.bytes().len() <= BlockMap::MAX_BYTES);
            prop_assert!(map.contains(wanted));
            prop_assert!(!map.contains(wanted ^ 1) || [0, count - 1].contains(&(wanted ^ 1)));
        }
    }
}

//! The blocks that their owners are to hold: runs of blocks of one file that lie in one stripe.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ids::{BlockSize, ByteRange, FileKey};
use crate::ring::{STRIPE_BYTES, StripeId, stripe_of};

/// Blocks in a row, all of one stripe.
#[derive(Debug, Clone)]
pub struct HoldOrder {
    pub key: Arc<FileKey>,
    pub blocks: Range<u32>,
    /// Orders of the same file that are not carried out yet.
    left: Arc<AtomicUsize>,
}

impl HoldOrder {
    pub fn stripe(&self, block_size: BlockSize) -> StripeId {
        stripe_of(&self.key.id(), self.blocks.start, block_size)
    }

    /// Notes that this order is carried out; true when it was the last of its file.
    pub(super) fn finish(&self) -> bool {
        self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Bytes of content in these blocks.
    pub fn bytes(&self, block_size: BlockSize) -> u64 {
        let block = u64::from(block_size.bytes());
        let range = ByteRange { start: u64::from(self.blocks.start) * block, end: u64::from(self.blocks.end) * block };
        range.clamp_to(self.key.size).length()
    }
}

/// The orders that cover `wanted` of a file's blocks: ascending numbers.
pub fn orders(key: &Arc<FileKey>, wanted: impl IntoIterator<Item = u32>, block_size: BlockSize) -> Vec<HoldOrder> {
    let stripe_blocks = (STRIPE_BYTES / u64::from(block_size.bytes())).max(1) as u32;
    let mut runs: Vec<Range<u32>> = Vec::new();
    for index in wanted {
        match runs.last_mut() {
            Some(run) if run.end == index && index % stripe_blocks != 0 => run.end += 1,
            _ => runs.push(index..index + 1),
        }
    }
    let left = Arc::new(AtomicUsize::new(runs.len()));
    runs.into_iter().map(|blocks| HoldOrder { key: key.clone(), blocks, left: left.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::ids::Version;

    proptest! {
        #[test]
        fn orders_cover_each_wanted_block_once_and_cross_no_stripe(
            wanted in prop::collection::btree_set(0u32..200, 0..120),
        ) {
            let block_size = BlockSize::DEFAULT;
            let size = 200 * u64::from(block_size.bytes()) - 5;
            let key = FileKey { dataset: "d".into(), path: (*b"f").into(), size, version: Version::ModifiedNs(1) };
            let found = orders(&Arc::new(key), wanted.iter().copied(), block_size);
            let covered: Vec<u32> = found.iter().flat_map(|order| order.blocks.clone()).collect();
            prop_assert_eq!(covered.iter().copied().collect::<BTreeSet<_>>(), wanted.clone());
            prop_assert_eq!(covered.len(), wanted.len());
            for order in &found {
                let stripes: BTreeSet<_> = order.blocks.clone()
                    .map(|index| stripe_of(&order.key.id(), index, block_size).0).collect();
                prop_assert_eq!(stripes.len(), 1);
            }
            let ends: Vec<bool> = found.iter().map(HoldOrder::finish).collect();
            prop_assert_eq!(ends.iter().filter(|end| **end).count(), usize::from(!wanted.is_empty()));
        }
    }
}

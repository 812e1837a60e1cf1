//! Checksums of pieces of blocks that were sent before, so that sending them again touches no byte.
//!
//! A block's identity names its content, so what was computed once holds for ever, whatever becomes of the cached copy.
//! If that copy is damaged, the receiver notices by this very checksum, and has the worker look at the block. What was
//! computed of a block that turns out damaged is forgotten.

use std::collections::HashMap;

use crate::ids::BlockId;
use crate::sync::Mutex;

/// Bytes that one checksum stands for, from the start of the block.
pub(super) const PIECE_BYTES: u64 = 128 << 10;

const SHARDS: usize = 16;
/// Blocks remembered: at 4 MiB a block, the checksums of 512 GiB in about 25 MB.
const MOST_BLOCKS: usize = 128 << 10;

type Shard = HashMap<BlockId, Box<[Option<u32>]>>;

#[derive(Debug)]
pub(super) struct Checksums {
    shards: Vec<Mutex<Shard>>,
}

impl Default for Checksums {
    fn default() -> Self {
        Checksums { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl Checksums {
    /// The checksum of piece `piece` of the block, if known.
    pub(super) fn find(&self, block: &BlockId, piece: usize) -> Option<u32> {
        *self.shard(block).lock().get(block)?.get(piece)?
    }

    /// Remembers a checksum; a block has `pieces` of them.
    pub(super) fn note(&self, block: BlockId, piece: usize, pieces: usize, checksum: u32) {
        let mut shard = self.shard(&block).lock();
        if shard.len() >= MOST_BLOCKS / SHARDS && !shard.contains_key(&block) {
            // Any will do: it costs one more pass over that block.
            let victim = shard.keys().next().copied();
            victim.map(|victim| shard.remove(&victim));
        }
        let known = shard.entry(block).or_insert_with(|| vec![None; pieces].into_boxed_slice());
        if let Some(place) = known.get_mut(piece) {
            *place = Some(checksum);
        }
    }

    /// Forgets what was computed of a block.
    pub(super) fn forget(&self, block: &BlockId) {
        self.shard(block).lock().remove(block);
    }

    fn shard(&self, block: &BlockId) -> &Mutex<Shard> {
        &self.shards[(usize::from(block.file.0[1]) + block.index as usize) % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FileId;

    fn block(number: u32) -> BlockId {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_le_bytes());
        BlockId { file: FileId(id), index: number % 7 }
    }

    #[test]
    fn what_was_noted_is_found_and_nothing_else() {
        let checksums = Checksums::default();
        checksums.note(block(1), 2, 4, 99);
        assert_eq!((checksums.find(&block(1), 2), checksums.find(&block(1), 1)), (Some(99), None));
        assert_eq!((checksums.find(&block(1), 9), checksums.find(&block(2), 2)), (None, None));
        checksums.forget(&block(1));
        assert_eq!(checksums.find(&block(1), 2), None);
    }

    #[test]
    fn memory_stays_bounded() {
        let checksums = Checksums::default();
        (0..2 * MOST_BLOCKS as u32).for_each(|number| checksums.note(block(number), 0, 1, number));
        assert!(checksums.shards.iter().map(|shard| shard.lock().len()).sum::<usize>() <= MOST_BLOCKS);
    }
}

//! Checksums of pieces of blocks that were sent before, so that sending them again touches no byte.
//!
//! A block's identity names its content, so what was computed once holds for ever, whatever becomes of the cached copy.
//! If that copy is damaged, the receiver notices by this very checksum, and has the worker look at the block. Checksums
//! of a block that turns out damaged are forgotten.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use super::frames::FINE_BYTES;
use crate::ids::BlockId;
use crate::sync::Mutex;

/// Bytes that one checksum stands for, from the start of the block.
pub(super) const PIECE_BYTES: u64 = FINE_BYTES;

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
    /// The checksum of consecutive pieces of the block, together `length_bytes` long, if that of each is known.
    pub(super) fn find(&self, block: &BlockId, pieces: Range<usize>, length_bytes: u64) -> Option<u32> {
        let shard = self.shard(block).lock();
        let known = shard.get(block)?.get(pieces)?.iter().copied().collect::<Option<Vec<u32>>>()?;
        joined(&known, length_bytes)
    }

    /// Remembers the checksums of the pieces from `first` on, whose content is `bytes`; a block has `count` of them.
    /// Returns the checksum of `bytes`.
    pub(super) fn note(&self, block: BlockId, first: usize, count: usize, bytes: &[u8]) -> u32 {
        let checksums: Vec<u32> = bytes.chunks(PIECE_BYTES as usize).map(crc32c::crc32c).collect();
        for (piece, checksum) in (first..).zip(&checksums) {
            self.note_piece(block, piece, count, *checksum);
        }
        joined(&checksums, bytes.len() as u64).unwrap_or_default()
    }

    fn note_piece(&self, block: BlockId, piece: usize, pieces: usize, checksum: u32) {
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

/// The checksum of pieces that follow each other, all of full length but the last, from those of each; `None`: there are
/// none.
fn joined(checksums: &[u32], length_bytes: u64) -> Option<u32> {
    let (last, full) = checksums.split_last()?;
    let last_bytes = length_bytes - full.len() as u64 * PIECE_BYTES;
    let before = full.iter().copied().reduce(|sum, next| followed_by_piece(sum) ^ next);
    Some(match before {
        None => *last,
        Some(before) if last_bytes == PIECE_BYTES => followed_by_piece(before) ^ last,
        Some(before) => crc32c::crc32c_combine(before, *last, last_bytes as usize),
    })
}

/// What `checksum` becomes when a piece of zeros follows, but for that piece's own checksum. A CRC is linear, so what
/// becomes of each of its bits is computed once; `crc32c_combine` takes ten microseconds.
fn followed_by_piece(checksum: u32) -> u32 {
    static OF_BITS: OnceLock<[u32; 32]> = OnceLock::new();
    let of_bits =
        OF_BITS.get_or_init(|| std::array::from_fn(|bit| crc32c::crc32c_combine(1 << bit, 0, PIECE_BYTES as usize)));
    (0..32).filter(|bit| checksum >> bit & 1 == 1).fold(0, |sum, bit| sum ^ of_bits[bit])
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
        checksums.note_piece(block(1), 2, 4, 99);
        let find = |of, piece| checksums.find(&block(of), piece..piece + 1, PIECE_BYTES);
        assert_eq!((find(1, 2), find(1, 1)), (Some(99), None));
        assert_eq!((find(1, 9), find(2, 2)), (None, None));
        assert_eq!(checksums.find(&block(1), 2..4, 2 * PIECE_BYTES), None, "one of them is not known");
        checksums.forget(&block(1));
        assert_eq!(find(1, 2), None);
    }

    #[test]
    fn pieces_have_the_checksum_of_their_bytes_together() {
        let checksums = Checksums::default();
        for length in [1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 4 * PIECE_BYTES, 4 * PIECE_BYTES - 77] {
            let bytes: Vec<u8> = (0..length).map(|at| ((at * at) >> 7) as u8).collect();
            let pieces = length.div_ceil(PIECE_BYTES) as usize;
            assert_eq!(checksums.note(block(length as u32), 3, 3 + pieces, &bytes), crc32c::crc32c(&bytes));
            let found = checksums.find(&block(length as u32), 3..3 + pieces, length);
            assert_eq!(found, Some(crc32c::crc32c(&bytes)), "{length}");
        }
    }

    #[test]
    fn memory_stays_bounded() {
        let checksums = Checksums::default();
        (0..2 * MOST_BLOCKS as u32).for_each(|number| checksums.note_piece(block(number), 0, 1, number));
        assert!(checksums.shards.iter().map(|shard| shard.lock().len()).sum::<usize>() <= MOST_BLOCKS);
    }
}

//! The length of the pieces of an answer: each travels as one frame.

use crate::ids::ByteRange;

/// The least that is cut off: the first bytes of an answer leave soon, and what is not here yet is passed on in such.
pub(super) const FINE_BYTES: u64 = 128 << 10;

/// What follows the first piece is cut off in such: each frame costs a header, system calls and a wake-up on either side.
/// A divisor of a MiB, which a frame may hold, and of a block's size unless that is smaller.
const WIDE_BYTES: u64 = 512 << 10;

/// The piece of `range` from `at` on, which lies in it, for blocks of `block_bytes`. It never lies in two blocks.
pub(super) fn fine(range: ByteRange, at: u64, block_bytes: u64) -> ByteRange {
    cut(range, at, FINE_BYTES.min(block_bytes))
}

/// The same for what is cached: longer, but for the first piece.
pub(super) fn stored(range: ByteRange, at: u64, block_bytes: u64) -> ByteRange {
    cut(range, at, if at == range.start { FINE_BYTES } else { WIDE_BYTES }.min(block_bytes))
}

fn cut(range: ByteRange, at: u64, step: u64) -> ByteRange {
    ByteRange { start: at, end: ((at / step + 1) * step).min(range.end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: u64 = 4 << 20;

    /// The lengths of all pieces in KiB.
    fn lengths_kib(range: ByteRange, next: impl Fn(ByteRange, u64, u64) -> ByteRange) -> Vec<u64> {
        let mut at = range.start;
        let mut lengths = Vec::new();
        while at < range.end {
            let piece = next(range, at, BLOCK);
            assert!(piece.start == at && piece.end > at);
            lengths.push(piece.length() >> 10);
            at = piece.end;
        }
        lengths
    }

    #[test]
    fn the_first_piece_is_short_and_those_that_follow_are_long_where_they_are_cached() {
        assert_eq!(lengths_kib(ByteRange { start: 0, end: 300 << 10 }, stored), [128, 172]);
        let of_block = lengths_kib(ByteRange { start: 0, end: BLOCK }, stored);
        assert_eq!(of_block, [vec![128, 384], vec![512; 7]].concat());
        assert_eq!(lengths_kib(ByteRange { start: 0, end: BLOCK }, fine), [128; 32]);
    }

    #[test]
    fn after_an_odd_beginning_pieces_are_aligned_again() {
        let range = ByteRange { start: 100 << 10, end: BLOCK };
        assert_eq!(lengths_kib(range, stored)[..3], [28, 384, 512]);
    }

    proptest! {
        #[test]
        fn no_piece_lies_in_two_blocks(start in 0..4 * BLOCK, length in 1..2 * BLOCK, block in prop::sample::select(vec![4096, 64 << 10, 1 << 20, BLOCK])) {
            let range = ByteRange { start, end: start + length };
            let mut at = start;
            while at < range.end {
                let piece = stored(range, at, block);
                prop_assert!(piece.start / block == (piece.end - 1) / block && piece.end <= range.end && piece.end > at);
                at = piece.end;
            }
        }
    }
}

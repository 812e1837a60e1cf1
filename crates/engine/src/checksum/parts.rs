//! Objects that were uploaded in parts, of which a storage keeps the checksum of the parts' checksums alone: what that is,
//! from CRCs of smaller pieces, and which sizes the parts may have.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crc_fast::CrcAlgorithm;

use super::{Checksum, Kind};
use crate::sync::Mutex;

const MIB: u64 = 1 << 20;
/// The finest pieces that sizes of parts are guessed in.
pub const GRID_BYTES: u64 = MIB;
/// So many sizes are tried: each is one chance in four thousand million to take wrong bytes for right ones.
const GUESSES_MAX: u64 = 64;
/// What tools take by default, the commonest first.
const COMMON_MIB: [u64; 12] = [8, 5, 16, 64, 10, 32, 50, 100, 15, 25, 128, 256];

/// The CRCs of a file's pieces in a row, all of one length but the last.
pub struct Pieces {
    kind: Kind,
    algorithm: CrcAlgorithm,
    piece_bytes: u64,
    last_bytes: u64,
    shift: Shift,
    crcs: Vec<u64>,
}

impl Pieces {
    /// `None` where the kind is no CRC, or these are not all of the file's pieces.
    pub fn new(kind: Kind, piece_bytes: u64, size: u64, checksums: Vec<Checksum>) -> Option<Self> {
        let crcs: Vec<u64> = checksums.iter().map(Checksum::number).collect();
        let last_bytes = (size + piece_bytes).checked_sub(piece_bytes * crcs.len() as u64)?;
        let whole = size > 0 && (1..=piece_bytes).contains(&last_bytes);
        let algorithm = kind.crc().filter(|_| whole)?;
        let shift = shift(algorithm, kind, piece_bytes);
        Some(Pieces { kind, algorithm, piece_bytes, last_bytes, shift, crcs })
    }

    /// The checksum of all of the file.
    pub fn whole(&self) -> Checksum {
        self.joined(&self.crcs, true)
    }

    /// What the file's checksum is if it came in parts of `part_bytes`, which is a multiple of the pieces' length.
    pub fn in_parts_of(&self, part_bytes: u64) -> Checksum {
        let parts = self.crcs.chunks((part_bytes / self.piece_bytes).max(1) as usize);
        let last = parts.len() - 1;
        Checksum::of_parts(self.kind, parts.enumerate().map(|(number, crcs)| self.joined(crcs, number == last)))
    }

    fn joined(&self, crcs: &[u64], is_last: bool) -> Checksum {
        let (full, last) = if is_last { crcs.split_at(crcs.len() - 1) } else { (crcs, &[][..]) };
        let before = full.iter().fold(0, |sum, crc| followed(&self.shift, sum) ^ crc);
        let join = |sum, crc: &u64| crc_fast::checksum_combine(self.algorithm, sum, *crc, self.last_bytes);
        Checksum::of_number(self.kind, last.iter().fold(before, join))
    }
}

/// What becomes of each bit of a CRC when a piece of zeros follows. A CRC is linear, so this is all that is needed to join
/// pieces; `checksum_combine` takes some fifty microseconds.
type Shift = Arc<[u64]>;

fn shift(algorithm: CrcAlgorithm, kind: Kind, piece_bytes: u64) -> Shift {
    static KNOWN: LazyLock<Mutex<HashMap<(Kind, u64), Shift>>> = LazyLock::new(Mutex::default);
    let of_bits = || {
        let bits = 8 * kind.length() as u32;
        (0..bits).map(|bit| crc_fast::checksum_combine(algorithm, 1 << bit, 0, piece_bytes)).collect()
    };
    // Pieces are blocks or of `GRID_BYTES`: there are few lengths.
    KNOWN.lock().entry((kind, piece_bytes)).or_insert_with(of_bits).clone()
}

fn followed(shift: &Shift, crc: u64) -> u64 {
    shift.iter().enumerate().filter(|(bit, _)| crc >> bit & 1 == 1).fold(0, |sum, (_, image)| sum ^ image)
}

/// Multiples of `grid_bytes` that the parts may be long of which `count` make up `size` bytes, the last one being shorter
/// or not.
pub fn guesses(size: u64, count: u32, grid_bytes: u64) -> Vec<u64> {
    let Some((least, most)) = bounds(size, count) else { return vec![size.next_multiple_of(grid_bytes)] };
    let mut step = grid_bytes;
    while most.saturating_sub(least) / step >= GUESSES_MAX {
        step *= 2;
    }
    (least.div_ceil(step)..=most / step).map(|steps| steps * step).collect()
}

/// The same for checksums that are dear to compute: of sizes that tools take by default, the commonest first.
pub fn common_guesses(size: u64, count: u32) -> Vec<u64> {
    let Some((least, most)) = bounds(size, count) else { return vec![size] };
    COMMON_MIB.iter().map(|mib| mib * MIB).filter(|bytes| (least..=most).contains(bytes)).collect()
}

/// The shortest and the longest parts of which `count` make up `size` bytes; `None` where all of it is one part.
fn bounds(size: u64, count: u32) -> Option<(u64, u64)> {
    let count = u64::from(count);
    (count > 1).then(|| (size.div_ceil(count).max(1), size.saturating_sub(1) / (count - 1)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(kind: Kind, content: &[u8], piece_bytes: usize) -> Pieces {
        let crcs = content.chunks(piece_bytes).map(|piece| Checksum::of(kind, piece)).collect();
        Pieces::new(kind, piece_bytes as u64, content.len() as u64, crcs).unwrap()
    }

    proptest! {
        #[test]
        fn the_crcs_of_pieces_are_those_of_the_file_and_of_its_parts(
            content in prop::collection::vec(any::<u8>(), 1..3000), piece in prop::sample::select(vec![7usize, 64, 699]), times in 1usize..9
        ) {
            for kind in [Kind::Crc32c, Kind::Crc32, Kind::Crc64Nvme] {
                let pieces = pieces(kind, &content, piece);
                prop_assert_eq!(pieces.whole(), Checksum::of(kind, &content));
                let parts = content.chunks(piece * times).map(|part| Checksum::of(kind, part));
                prop_assert_eq!(pieces.in_parts_of((piece * times) as u64), Checksum::of_parts(kind, parts));
            }
        }

        #[test]
        fn guesses_are_few_and_make_up_the_file(size in 1u64..1 << 42, count in 1u32..10_001) {
            for guess in guesses(size, count, GRID_BYTES).into_iter().chain(common_guesses(size, count)) {
                prop_assert_eq!(size.div_ceil(guess), u64::from(count));
            }
            prop_assert!(guesses(size, count, GRID_BYTES).len() as u64 <= GUESSES_MAX + 1);
        }

        #[test]
        fn what_tools_take_by_default_is_guessed(size in (5 * MIB)..1 << 40, at in 0..COMMON_MIB.len()) {
            let part_bytes = COMMON_MIB[at] * MIB;
            let count = u32::try_from(size.div_ceil(part_bytes)).unwrap();
            prop_assume!(count > 1);
            prop_assert!(common_guesses(size, count).contains(&part_bytes));
            // With two or three parts the sizes in question are many, and not all of them are tried.
            prop_assume!(count > 8);
            prop_assert!(guesses(size, count, GRID_BYTES).contains(&part_bytes));
        }
    }

    #[test]
    fn a_file_that_came_as_one_part_is_one() {
        assert_eq!((guesses(7, 1, MIB), common_guesses(7, 1)), (vec![MIB], vec![7]));
        assert_eq!(
            pieces(Kind::Crc32, b"abc", 2).in_parts_of(4),
            Checksum::of_parts(Kind::Crc32, [Checksum::of(Kind::Crc32, b"abc")])
        );
    }

    #[test]
    fn what_is_not_all_of_a_file_has_no_checksum() {
        let pieces = |kind, count| vec![Checksum::of(kind, b""); count];
        assert!(Pieces::new(Kind::Crc32, 4, 9, pieces(Kind::Crc32, 2)).is_none());
        assert!(Pieces::new(Kind::Crc32, 4, 9, pieces(Kind::Crc32, 4)).is_none());
        assert!(Pieces::new(Kind::Md5, 4, 9, pieces(Kind::Md5, 3)).is_none());
        assert!(Pieces::new(Kind::Crc32, 4, 0, Vec::new()).is_none());
    }
}

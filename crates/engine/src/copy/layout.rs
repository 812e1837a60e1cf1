//! How a file is cut into parts: pure arithmetic within the limits of S3 and OSS.

use crate::ids::ByteRange;
use crate::origin::Layout;

/// S3 and OSS take 10,000 parts.
const PARTS_MAX: u64 = 10_000;
const MIB: u64 = 1 << 20;

/// The layout of a file: parts of `part_bytes`, or larger ones where there would be too many.
pub fn layout_of(size: u64, part_bytes: u64) -> Layout {
    let least = size.div_ceil(PARTS_MAX).next_multiple_of(MIB);
    let part_bytes = if size.div_ceil(part_bytes.max(1)) > PARTS_MAX { least } else { part_bytes.max(1) };
    Layout { size, part_bytes }
}

/// How many parts a file has: none when it is empty.
pub fn parts(layout: Layout) -> usize {
    layout.size.div_ceil(layout.part_bytes) as usize
}

/// The bytes of one part.
pub fn range(layout: Layout, part: usize) -> ByteRange {
    ByteRange::new(part as u64 * layout.part_bytes, layout.part_bytes).clamp_to(layout.size)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_the_file_in_order_and_never_too_many(size in 0u64..(6 << 40), part_bytes in (5 * MIB)..(64 * MIB)) {
            let layout = layout_of(size, part_bytes);
            let count = parts(layout);
            prop_assert!(count as u64 <= PARTS_MAX);
            let ends: Vec<_> = [0, count / 2, count.saturating_sub(1)].iter().map(|part| range(layout, *part)).collect();
            prop_assert_eq!(ends[0].start, 0);
            prop_assert_eq!(ends[2].end, size);
            if count > 1 {
                prop_assert_eq!(range(layout, count / 2).start, range(layout, count / 2 - 1).end);
                prop_assert_eq!(ends[0].length(), layout.part_bytes);
            }
        }
    }

    #[test]
    fn an_empty_file_has_no_part() {
        assert_eq!(parts(layout_of(0, 16 * MIB)), 0);
    }
}

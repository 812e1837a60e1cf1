//! Cutting a range of a file at the borders of stripes: each segment belongs to one set of owners.

use crate::ids::ByteRange;
use crate::ring::STRIPE_BYTES;

/// `range` in pieces that each lie in one stripe, in order.
pub(super) fn segments(range: ByteRange) -> impl Iterator<Item = ByteRange> + Send {
    let mut start = range.start;
    std::iter::from_fn(move || {
        if start >= range.end {
            return None;
        }
        let end = ((start / STRIPE_BYTES + 1) * STRIPE_BYTES).min(range.end);
        let segment = ByteRange { start, end };
        start = end;
        Some(segment)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn segments_cover_the_range_in_order_and_cross_no_border(start in 0u64..1 << 40, length in 0u64..200 << 20) {
            let range = ByteRange::new(start, length);
            let parts: Vec<_> = segments(range).collect();
            prop_assert_eq!(parts.iter().map(ByteRange::length).sum::<u64>(), length);
            let mut position = start;
            for part in parts {
                prop_assert_eq!(part.start, position);
                prop_assert_eq!(part.start / STRIPE_BYTES, (part.end - 1) / STRIPE_BYTES);
                position = part.end;
            }
        }
    }
}

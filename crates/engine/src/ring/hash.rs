//! The numbers of placement, byte for byte as `docs/format/placement.md` has them: a change here moves every cached block
//! of every cluster, and mixed versions would disagree. Integers, and floating point by the four basic operations alone,
//! so that all machines compute the same.

use crate::ids::{BlockSize, FileId};

/// Consecutive blocks of a file that lie together: what one worker owns of it at least.
pub const STRIPE_BYTES: u64 = 16 << 20;

const MEMBER_DOMAIN: &[u8] = b"headrace placement 1\0";
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The unit of placement, as a hash: one stripe of one version of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StripeId(pub u64);

/// The stripe of block `index` of `file`. Blocks larger than a stripe are a stripe each.
pub fn stripe_of(file: &FileId, index: u32, block_size: BlockSize) -> StripeId {
    let number = u64::from(index) * u64::from(block_size.bytes()) / STRIPE_BYTES;
    let bits = u128::from_le_bytes(file.0);
    let (low, high) = (bits as u64, (bits >> 64) as u64);
    StripeId(mix(mix(high.wrapping_add(number.wrapping_mul(GOLDEN))) ^ low))
}

/// Steele and Vigna's finaliser of 64 bits.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// What a member's id contributes to all its draws.
pub fn seeds_of(member: &str) -> (u32, u32) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(MEMBER_DOMAIN).update(member.as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    let bits = u64::from_le_bytes(bytes);
    (bits as u32, (bits >> 32) as u32)
}

/// The draw of a member for a stripe: uniform over 32 bits, independent between members and between stripes.
///
/// Multiplications of 32 bits, since those are what vector units have.
#[inline(always)]
pub fn draw(seeds: (u32, u32), stripe: StripeId) -> u32 {
    let mut bits = (seeds.0 ^ stripe.0 as u32).wrapping_mul(0x9e37_79b1);
    bits = (bits ^ (bits >> 15)) ^ seeds.1 ^ (stripe.0 >> 32) as u32;
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x7feb_352d);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x846c_a68b);
    bits ^ (bits >> 16)
}

/// `weight / -ln(u)` for the draw taken as `u` between 0 and 1: the greatest score wins, and a member's chance to have it
/// is its share of all weights. Greater draws have greater scores.
pub fn score(draw: u32, weight: f64) -> f64 {
    weight / negative_log(draw)
}

/// `-ln((draw + ½) / 2³²)`, by the series of the inverse hyperbolic tangent: a system's own logarithm may differ from
/// another's in the last bit.
fn negative_log(draw: u32) -> f64 {
    let odd = 2 * u64::from(draw) + 1;
    let mut exponent = odd.ilog2();
    let mut mantissa = odd as f64 / (1_u64 << exponent) as f64;
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..=10).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    f64::from(33 - exponent) * std::f64::consts::LN_2 - 2.0 * ratio * series
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_logarithm_is_the_systems_but_for_rounding() {
        for step in 0..=1_000_000_u32 {
            let draw = step.wrapping_mul(4295) ^ (u32::MAX * (step % 2));
            let expected = -((f64::from(draw) + 0.5) / 4_294_967_296.0).ln();
            let error = (negative_log(draw) - expected).abs() / expected;
            assert!(error < 1e-9, "draw {draw}: {} is not {expected}", negative_log(draw));
        }
        for draw in [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1] {
            let exact = -(((2.0 * f64::from(draw) + 1.0) / 8_589_934_592.0).ln());
            assert!((negative_log(draw) - exact).abs() <= 2e-15 * exact.max(1.0), "draw {draw}");
        }
    }

    #[test]
    fn greater_draws_have_greater_scores() {
        for base in [0, 1000, 1 << 30, 3_037_000_498, 1 << 31, 3 << 30, u32::MAX - 1000] {
            for draw in base..base + 1000 {
                assert!(score(draw, 7.0) < score(draw + 1, 7.0), "draw {draw}");
            }
        }
    }

    #[test]
    fn blocks_of_a_stripe_lie_together_and_stripes_apart() {
        let file = FileId([7; 16]);
        let four = BlockSize::new(4 << 20).unwrap();
        let large = BlockSize::new(64 << 20).unwrap();
        assert_eq!(stripe_of(&file, 0, four), stripe_of(&file, 3, four));
        assert_ne!(stripe_of(&file, 3, four), stripe_of(&file, 4, four));
        assert_ne!(stripe_of(&file, 0, large), stripe_of(&file, 1, large));
        // The place of a byte does not depend on the size of the blocks.
        assert_eq!(stripe_of(&file, 4, four), stripe_of(&file, 1, BlockSize::new(16 << 20).unwrap()));
        assert_ne!(stripe_of(&file, 0, four), stripe_of(&FileId([8; 16]), 0, four));
    }
}

//! The words of several contents in one value: what MD5 does with a word is done with all of them.

use wide::u32x8;

/// As many words of 32 bits as it has lanes.
pub(super) trait Vector: Copy {
    fn gather(of_lane: impl Fn(usize) -> u32) -> Self;
    fn lane(self, lane: usize) -> u32;
    fn splat(word: u32) -> Self;
    /// Modulo 2^32.
    fn add(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    /// By less than 32 bits, and more than none.
    fn rotate_left(self, bits: u32) -> Self;
}

/// One lane.
impl Vector for u32 {
    #[inline(always)]
    fn gather(of_lane: impl Fn(usize) -> u32) -> Self {
        of_lane(0)
    }

    #[inline(always)]
    fn lane(self, _: usize) -> u32 {
        self
    }

    #[inline(always)]
    fn splat(word: u32) -> Self {
        word
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self | other
    }

    #[inline(always)]
    fn rotate_left(self, bits: u32) -> Self {
        u32::rotate_left(self, bits)
    }
}

/// Eight lanes, in as many registers as the processor needs for them.
impl Vector for u32x8 {
    #[inline(always)]
    fn gather(of_lane: impl Fn(usize) -> u32) -> Self {
        // Not by a function of arrays: that would not be compiled for the processor that the caller is for.
        let word = of_lane;
        u32x8::new([word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7)])
    }

    #[inline(always)]
    fn lane(self, lane: usize) -> u32 {
        self.to_array()[lane]
    }

    #[inline(always)]
    fn splat(word: u32) -> Self {
        u32x8::splat(word)
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self | other
    }

    #[inline(always)]
    fn rotate_left(self, bits: u32) -> Self {
        (self << bits) | (self >> (32 - bits))
    }
}

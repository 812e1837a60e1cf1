//! The position of a reader in its file, and how far ahead of it to fetch. Decisions only: no I/O, no clock.
//!
//! One `ReaderState` belongs to a handle, or to an inode when opens are elided; it follows several positions at once, so
//! that threads that read one file in different places are each seen as sequential. A position that is continued gets a
//! window of one block; each time the reader has consumed it, the window doubles if that helps (`pace`); a jump starts a
//! new position.

use std::time::Duration;

use super::pace::{Pace, Window};
use crate::ids::{BlockSize, ByteRange};
use crate::sync::Mutex;

/// How far from the expected offset a read still continues a position that has no window yet. The kernel's own
/// read-ahead sends neighbouring requests that overtake each other.
const NEAR_BYTES: u64 = 1 << 20;

/// Positions followed per handle or inode.
const STREAMS: usize = 16;

/// Requests that a window is cut into, so that one reader keeps the link busy while it consumes the oldest.
const REQUESTS_PER_WINDOW: u64 = 4;

/// A reader waits when so small a part of a window was not here yet: what is fetched by several requests at once comes all
/// at the same time, and the reader then finds most of it at hand.
const NOTICED: u64 = 16;

/// One request longer than this gains nothing: at 10 Gbit/s it runs for 26 ms.
pub(crate) const MAX_SPAN_BYTES: u64 = 32 << 20;

/// What bounds a window: the file and the limits in force.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) size: u64,
    pub(crate) block_size: BlockSize,
    pub(crate) max_window: u64,
}

/// A read, and what it is judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed {
    pub(crate) range: ByteRange,
    /// Bytes of it that were not here yet.
    pub(crate) missed_bytes: u64,
    /// Since any moment that is the same for all reads.
    pub(crate) at: Duration,
    /// How soon the storage begins to answer.
    pub(crate) answer_time: Duration,
}

/// What to fetch ahead: the bytes from `from` to `to`, in requests of about `span_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) span_bytes: u64,
    stream: u64,
}

impl Plan {
    /// All of a file that nobody reads yet.
    pub(crate) fn whole(size: u64) -> Self {
        Plan::stretch(0, size)
    }

    /// The bytes from `from` to `to`, which begin at blocks' borders.
    pub(crate) fn stretch(from: u64, to: u64) -> Self {
        Plan { from, to, span_bytes: MAX_SPAN_BYTES, stream: 0 }
    }
}

/// The read-ahead state of one handle or inode.
#[derive(Debug, Default)]
pub struct ReaderState {
    streams: Mutex<Streams>,
    /// Nothing is fetched ahead: the reader says itself what it wants next.
    is_still: bool,
}

#[derive(Debug, Default)]
struct Streams {
    list: Vec<Stream>,
    tick: u64,
}

/// One position that a reader continues from.
#[derive(Debug)]
struct Stream {
    number: u64,
    last_used: u64,
    /// Where the next read is expected.
    next: u64,
    /// Everything before this has been asked for.
    frontier: u64,
    /// Bytes to be ahead.
    window: u64,
    /// What becomes of the window is decided when the reader gets here; 0 while nothing was continued.
    judged_at: u64,
    /// Of this window: bytes that were not here yet when they were read.
    missed_bytes: u64,
    pace: Pace,
}

impl ReaderState {
    pub fn new() -> Self {
        Self::default()
    }

    /// The state of a reader for whom nothing is to be fetched ahead.
    pub fn still() -> Self {
        ReaderState { is_still: true, ..Self::default() }
    }

    /// Notes a read and says what to fetch ahead of it, if anything.
    pub(crate) fn observe(&self, read: &Observed, shape: &Shape) -> Option<Plan> {
        if self.is_still {
            return None;
        }
        self.streams.lock().observe(read, shape)
    }

    /// Only what lies before `reached` could be asked for: memory or requests are short. Halves the window.
    pub(crate) fn pressed(&self, plan: &Plan, reached: u64, shape: &Shape) {
        let mut streams = self.streams.lock();
        if let Some(stream) = streams.list.iter_mut().find(|stream| stream.number == plan.stream) {
            stream.frontier = stream.frontier.min(reached);
            stream.window = (stream.window / 2).max(u64::from(shape.block_size.bytes()));
        }
    }
}

impl Streams {
    fn observe(&mut self, read: &Observed, shape: &Shape) -> Option<Plan> {
        self.tick += 1;
        let tick = self.tick;
        let block = u64::from(shape.block_size.bytes());
        match self.list.iter_mut().find(|stream| stream.continues(read.range.start, block)) {
            Some(stream) => {
                stream.last_used = tick;
                stream.advance(read, shape)
            }
            None => self.begin(read, shape),
        }
    }

    /// A new position takes the place of the one unused for longest. The start of a file is taken as the start of a
    /// sequential read: most files are read whole.
    fn begin(&mut self, read: &Observed, shape: &Shape) -> Option<Plan> {
        if self.list.len() >= STREAMS {
            let oldest = self.list.iter().enumerate().min_by_key(|(_, stream)| stream.last_used)?.0;
            self.list.swap_remove(oldest);
        }
        let mut stream = Stream {
            number: self.tick,
            last_used: self.tick,
            next: read.range.end,
            frontier: 0,
            window: 0,
            judged_at: 0,
            missed_bytes: 0,
            pace: Pace::new(read.range.start, read.at),
        };
        let plan = if read.range.start == 0 { stream.advance(read, shape) } else { None };
        self.list.push(stream);
        plan
    }
}

impl Stream {
    fn continues(&self, start: u64, block: u64) -> bool {
        let tolerance = if self.judged_at == 0 { NEAR_BYTES } else { block.max(NEAR_BYTES) };
        start.abs_diff(self.next) <= tolerance
    }

    fn advance(&mut self, read: &Observed, shape: &Shape) -> Option<Plan> {
        let block = u64::from(shape.block_size.bytes());
        self.next = self.next.max(read.range.end);
        self.missed_bytes += read.missed_bytes;
        if self.judged_at == 0 {
            self.set_window(block, shape);
        } else if self.next >= self.judged_at {
            let waited = self.missed_bytes * NOTICED >= self.window.max(block);
            let before = Window { bytes: self.window, block_bytes: block, most_bytes: shape.max_window, waited };
            let next = self.pace.next_window(before, self.next, read.at, read.answer_time);
            self.set_window(next, shape);
        }
        // The block that the reader is in is fetched to its end on demand.
        self.frontier = self.frontier.max(self.next.next_multiple_of(block)).min(shape.size);
        self.plan(block, shape)
    }

    fn set_window(&mut self, bytes: u64, shape: &Shape) {
        self.missed_bytes = 0;
        self.window = bytes.min(shape.max_window);
        self.judged_at = self.next + self.window.max(u64::from(shape.block_size.bytes()));
    }

    /// Asks for more once a request's worth of room is in the window, or the file's end is.
    fn plan(&mut self, block: u64, shape: &Shape) -> Option<Plan> {
        let span_bytes = (self.window / REQUESTS_PER_WINDOW).clamp(block, MAX_SPAN_BYTES.max(block));
        let to = (self.next.next_multiple_of(block) + self.window / block * block).min(shape.size);
        let room = to.saturating_sub(self.frontier);
        if room == 0 || (room < span_bytes && to < shape.size) {
            return None;
        }
        let plan = Plan { from: self.frontier, to, span_bytes, stream: self.number };
        self.frontier = to;
        Some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 1 << 20;
    const PROMPT: Observed = Observed {
        range: ByteRange { start: 0, end: 0 },
        missed_bytes: 0,
        at: Duration::ZERO,
        answer_time: Duration::ZERO,
    };

    fn shape(size: u64) -> Shape {
        let block_size = BlockSize::new(BLOCK as u32).unwrap_or(BlockSize::DEFAULT);
        Shape { size, block_size, max_window: 16 * BLOCK }
    }

    /// A read by somebody who finds everything at hand.
    fn observe(state: &ReaderState, start: u64, length: u64, size: u64) -> Option<Plan> {
        let read = Observed { range: ByteRange::new(start, length), missed_bytes: 0, ..PROMPT };
        state.observe(&read, &shape(size))
    }

    /// Reads the whole file in steps; the plans it caused.
    fn scan(state: &ReaderState, size: u64, step: u64) -> Vec<Plan> {
        (0..size / step).filter_map(|n| observe(state, n * step, step, size)).collect()
    }

    #[test]
    fn a_scan_plans_every_byte_after_the_first_block_once_and_in_order() {
        for step in [4096, 128 << 10, BLOCK] {
            let plans = scan(&ReaderState::new(), 96 * BLOCK, step);
            assert_eq!(plans[0].from, BLOCK);
            assert!(plans.windows(2).all(|pair| pair[0].to == pair[1].from), "step {step}: {plans:?}");
            assert_eq!(plans.last().map(|plan| plan.to), Some(96 * BLOCK));
        }
    }

    #[test]
    fn the_window_doubles_as_it_is_consumed_and_stays_below_its_limit() {
        let state = ReaderState::new();
        let mut ahead = Vec::new();
        for n in 0..640 {
            let end = (n + 1) * (128 << 10);
            let frontier = match observe(&state, end - (128 << 10), 128 << 10, 1 << 40) {
                Some(plan) => plan.to,
                None => continue,
            };
            ahead.push((frontier - end) / BLOCK);
        }
        assert!(ahead[0] <= 1, "{ahead:?}");
        assert_eq!(ahead.iter().max(), Some(&16), "{ahead:?}");
    }

    #[test]
    fn a_reader_that_waits_at_a_full_link_keeps_a_window_of_a_block_or_two() {
        let state = ReaderState::new();
        let step = 128_u64 << 10;
        let most = (0..640_u64).map(|n| {
            let range = ByteRange::new(n * step, step);
            let missed_bytes = if n % 8 == 0 { step } else { 0 };
            // Eight MiB a second.
            let at = Duration::from_millis(16 * n);
            let plan = state.observe(&Observed { range, missed_bytes, at, ..PROMPT }, &shape(1 << 40));
            plan.map_or(0, |plan| plan.to - n * step)
        });
        assert!(most.max() <= Some(3 * BLOCK));
    }

    #[test]
    fn random_reads_plan_nothing() {
        let state = ReaderState::new();
        let offsets = (1..400_u64).map(|n| n * 7919 % 4001 * 8 * BLOCK + 4096);
        let plans = offsets.filter_map(|offset| observe(&state, offset, 4096, 1 << 40));
        assert_eq!(plans.count(), 0);
    }

    #[test]
    fn several_readers_of_one_inode_are_each_sequential() {
        let state = ReaderState::new();
        let bases = [64 * BLOCK, 512 * BLOCK, 1024 * BLOCK];
        for step in 0..40 {
            for base in bases {
                observe(&state, base + step * (128 << 10), 128 << 10, 1 << 40);
            }
        }
        let streams = state.streams.lock();
        assert_eq!(streams.list.len(), 3);
        assert!(streams.list.iter().all(|stream| stream.window >= BLOCK));
    }

    #[test]
    fn pressure_halves_the_window_and_keeps_the_place() {
        let state = ReaderState::new();
        let plan = scan(&state, 64 * BLOCK, 128 << 10).pop().unwrap_or_else(|| unreachable!("a scan has plans"));
        let before = state.streams.lock().list[0].window;
        state.pressed(&plan, plan.from, &shape(64 * BLOCK));
        let streams = state.streams.lock();
        assert_eq!((streams.list[0].window, streams.list[0].frontier), (before / 2, plan.from));
    }
}

//! One block on its way from an origin into the store: who waits for which part of it, and what has arrived.
//!
//! A flight knows no map, no store and no budget: it holds bytes, answers readers as soon as their range is there, and
//! is told from outside how it ended. A block whose asked-for offset lies inside it arrives as two stretches: the
//! *tail* from that offset to the end, and then the *head* before it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::block_memory::BlockMemory;
use super::control::{FlightAnswer, FlightWaiter, Outcome, SpanControl};
use super::pieces::Pieces;
use super::source::Source;
use crate::error::Error;
use crate::ids::BlockId;
use crate::store::Proof;
use crate::sync::Mutex;

/// One block being fetched, or fetched and still in memory.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) id: BlockId,
    pub(crate) source: Source,
    /// Length of the block in bytes.
    pub(crate) length: u32,
    /// Where in the block the tail starts; 0 when there is no head.
    pub(crate) tail_start: u32,
    pub(crate) control: Arc<SpanControl>,
    /// Told when somebody waits for bytes of the head.
    pub(crate) head_wanted: Notify,
    memory_given: Notify,
    /// What is known of all of the file, where this is all of it.
    proof: OnceLock<Proof>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    tail: Pieces,
    head: Pieces,
    readers: Vec<Reader>,
    watchers: Vec<oneshot::Sender<Outcome>>,
    memory: Option<BlockMemory>,
    /// Some reader has had the last byte.
    served_end: bool,
}

#[derive(Debug)]
enum Phase {
    Filling,
    /// All bytes are in memory: on the way to the store.
    Complete,
    /// All bytes are in memory, and the store did not keep them.
    Kept {
        reason: &'static str,
        since: Instant,
        consumed: bool,
    },
    Gone,
    Failed(Error),
}

#[derive(Debug)]
struct Reader {
    from: u32,
    to: u32,
    since: Instant,
    answer: oneshot::Sender<FlightAnswer>,
}

/// The part of the block that a piece belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stretch {
    Head,
    Tail,
}

/// What asking for a range gives at once.
pub(crate) enum Asked {
    Now(FlightAnswer),
    Later(FlightWaiter),
}

impl Flight {
    pub(crate) fn new(source: &Source, id: BlockId, length: u32, tail_start: u32, control: &Arc<SpanControl>) -> Self {
        Flight {
            id,
            source: source.clone(),
            length,
            tail_start,
            control: control.clone(),
            head_wanted: Notify::new(),
            memory_given: Notify::new(),
            proof: OnceLock::new(),
            state: Mutex::new(State {
                phase: Phase::Filling,
                tail: Pieces::default(),
                head: Pieces::default(),
                readers: Vec::new(),
                watchers: Vec::new(),
                memory: None,
                served_end: false,
            }),
        }
    }

    /// Gives the flight the memory that its bytes count against; kept until the bytes are dropped.
    pub(crate) fn set_memory(&self, memory: BlockMemory) {
        self.state.lock().memory = Some(memory);
        self.memory_given.notify_one();
    }

    pub(crate) fn note_proof(&self, proof: Proof) {
        // A block is fetched once; a second word would be the same.
        let _ = self.proof.set(proof);
    }

    pub(crate) fn proof(&self) -> Option<Proof> {
        self.proof.get().copied()
    }

    pub(crate) fn has_memory(&self) -> bool {
        self.state.lock().memory.is_some()
    }

    /// Gives back the memory that it got ahead of its fetch: nothing has arrived yet.
    pub(crate) fn give_memory_back(&self) {
        let memory = self.state.lock().memory.take();
        drop(memory);
    }

    /// Waits until it has memory.
    pub(crate) async fn wait_for_memory(&self) {
        while !self.has_memory() {
            self.memory_given.notified().await;
        }
    }

    /// The bytes `from..to` of the block if they are in memory now; `None` when a reader would have to wait.
    pub(crate) fn peek(&self, from: u32, to: u32) -> Option<Vec<Bytes>> {
        let mut state = self.state.lock();
        self.take(&mut state, from, to)
    }

    /// Asks for the bytes `from..to` of the block.
    pub(crate) fn ask(&self, from: u32, to: u32) -> Asked {
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Gone => return Asked::Now(FlightAnswer::Gone),
            Phase::Failed(error) => return Asked::Now(FlightAnswer::Failed(error.clone())),
            Phase::Filling | Phase::Complete | Phase::Kept { .. } => {}
        }
        if let Some(bytes) = self.take(&mut state, from, to) {
            return Asked::Now(FlightAnswer::Ready(bytes));
        }
        let (sender, receiver) = oneshot::channel();
        state.readers.push(Reader { from, to, since: Instant::now(), answer: sender });
        let waiting = FlightWaiter::new(receiver, &self.control);
        drop(state);
        if from < self.tail_start {
            self.head_wanted.notify_one();
        }
        Asked::Later(waiting)
    }

    /// How long somebody has waited for bytes of it, at most; zero when nobody does.
    pub(crate) fn waited_for(&self) -> Duration {
        let state = self.state.lock();
        let waiting = state.readers.iter().filter(|reader| !reader.answer.is_closed());
        waiting.map(|reader| reader.since.elapsed()).max().unwrap_or_default()
    }

    /// Where in the block ends what is waited for now; `None` when nobody waits.
    pub(crate) fn wanted_to(&self) -> Option<u32> {
        self.state.lock().readers.iter().filter(|reader| !reader.answer.is_closed()).map(|reader| reader.to).max()
    }

    /// Where in the block ends what has arrived of the tail.
    pub(crate) fn tail_end(&self) -> u32 {
        self.tail_start + self.state.lock().tail.length()
    }

    /// A receiver of how this flight ends.
    pub(crate) fn watch(&self) -> oneshot::Receiver<Outcome> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        let ended = match &state.phase {
            Phase::Filling | Phase::Complete => None,
            Phase::Kept { reason, .. } => Some(Outcome::Declined(reason)),
            Phase::Gone => Some(Outcome::Stored),
            Phase::Failed(error) => Some(Outcome::Failed(error.clone())),
        };
        match ended {
            // The receiver is alive: it is in this frame.
            Some(outcome) => drop(sender.send(outcome)),
            None => state.watchers.push(sender),
        }
        receiver
    }

    /// Appends what arrived and answers those who waited for it; true when the block is complete.
    pub(crate) fn append(&self, stretch: Stretch, piece: Bytes) -> bool {
        self.control.arrived(piece.len());
        let mut state = self.state.lock();
        match stretch {
            Stretch::Head => state.head.push(piece),
            Stretch::Tail => state.tail.push(piece),
        }
        let complete = state.head.length() + state.tail.length() == self.length;
        if complete && matches!(state.phase, Phase::Filling) {
            state.phase = Phase::Complete;
        }
        self.answer_readers(&mut state);
        complete
    }

    /// The whole block in order, for the store.
    pub(crate) fn parts(&self) -> Vec<Bytes> {
        let state = self.state.lock();
        state.head.parts().iter().chain(state.tail.parts()).cloned().collect()
    }

    /// The store has it: the bytes in memory go.
    pub(crate) fn end_stored(&self) {
        self.end(Phase::Gone, Outcome::Stored);
    }

    /// The store did not keep it; the bytes stay in memory until `discard`. True when a reader has had its end.
    pub(crate) fn end_declined(&self, reason: &'static str) -> bool {
        let mut state = self.state.lock();
        state.phase = Phase::Kept { reason, since: Instant::now(), consumed: state.served_end };
        for watcher in state.watchers.drain(..) {
            let _ = watcher.send(Outcome::Declined(reason));
        }
        state.served_end
    }

    /// A kept block is on its way to the store once more, if `may` agrees by why it was declined and how long it is.
    pub(crate) fn leave_memory(&self, may: impl Fn(&'static str, u64) -> bool) -> bool {
        let mut state = self.state.lock();
        let agreed = matches!(&state.phase, Phase::Kept { reason, .. } if may(reason, u64::from(self.length)));
        if agreed {
            state.phase = Phase::Complete;
        }
        agreed
    }

    /// Why the store did not keep it, while it stays in memory.
    pub(crate) fn declined_reason(&self) -> Option<&'static str> {
        match &self.state.lock().phase {
            Phase::Kept { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// True when some reader has had the last byte.
    pub(crate) fn was_consumed(&self) -> bool {
        self.state.lock().served_end
    }

    /// Notes that a kept block was read to its end; true the first time.
    pub(crate) fn mark_consumed(&self) -> bool {
        match &mut self.state.lock().phase {
            Phase::Kept { consumed, .. } => !std::mem::replace(consumed, true),
            _ => false,
        }
    }

    /// True when the block is kept and was read to its end, or is no longer kept.
    pub(crate) fn is_consumed(&self) -> bool {
        match &self.state.lock().phase {
            Phase::Kept { consumed, .. } => *consumed,
            phase => matches!(phase, Phase::Gone),
        }
    }

    /// How long the block has been kept.
    pub(crate) fn kept_for(&self) -> Duration {
        match &self.state.lock().phase {
            Phase::Kept { since, .. } => since.elapsed(),
            _ => Duration::ZERO,
        }
    }

    /// Drops the bytes of a block that was kept in memory.
    pub(crate) fn discard(&self) {
        self.end(Phase::Gone, Outcome::Stored);
    }

    /// It failed: all who wait get the error.
    pub(crate) fn fail(&self, error: &Error) {
        self.end(Phase::Failed(error.clone()), Outcome::Failed(error.clone()));
    }

    /// Nobody wanted it any more: whoever came at the last moment looks again.
    pub(crate) fn abandon(&self, error: &Error) {
        self.end(Phase::Gone, Outcome::Failed(error.clone()));
    }

    /// True while all of its bytes are in memory.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Complete | Phase::Kept { .. })
    }

    /// True while it is neither complete nor ended.
    pub(crate) fn is_filling(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Filling)
    }

    fn end(&self, phase: Phase, outcome: Outcome) {
        let mut state = self.state.lock();
        let failure = match &phase {
            Phase::Failed(error) => Some(error.clone()),
            _ => None,
        };
        state.phase = phase;
        for reader in state.readers.drain(..) {
            let answer = failure.clone().map_or(FlightAnswer::Gone, FlightAnswer::Failed);
            let _ = reader.answer.send(answer);
        }
        for watcher in state.watchers.drain(..) {
            let _ = watcher.send(outcome.clone());
        }
        let bytes = (std::mem::take(&mut state.head), std::mem::take(&mut state.tail), state.memory.take());
        drop(state);
        // Freed outside the lock, bytes before their memory permit: the budget never counts less than is held.
        drop((bytes.0, bytes.1));
        drop(bytes.2);
    }

    fn answer_readers(&self, state: &mut State) {
        let mut position = 0;
        while position < state.readers.len() {
            let (from, to) = (state.readers[position].from, state.readers[position].to);
            match self.take(state, from, to) {
                Some(bytes) => {
                    let reader = state.readers.swap_remove(position);
                    let _ = reader.answer.send(FlightAnswer::Ready(bytes));
                }
                None => position += 1,
            }
        }
    }

    /// The range if it has arrived.
    fn take(&self, state: &mut State, from: u32, to: u32) -> Option<Vec<Bytes>> {
        if matches!(state.phase, Phase::Gone | Phase::Failed(_)) {
            return None;
        }
        let start = self.tail_start;
        let tail_arrived = start + state.tail.length();
        let head_arrived = state.head.length();
        let in_tail = to <= tail_arrived && (from >= start || head_arrived == start);
        let arrived = in_tail || (from < start && to <= head_arrived);
        if !arrived {
            return None;
        }
        state.served_end |= to == self.length;
        self.control.serve();
        let mut bytes = Vec::with_capacity(4);
        if from < start {
            state.head.slice(from, to.min(start), &mut bytes);
        }
        if to > start {
            state.tail.slice(from.max(start) - start, to - start, &mut bytes);
        }
        Some(bytes)
    }
}

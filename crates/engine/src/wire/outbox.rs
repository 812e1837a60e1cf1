//! Everything that waits to be sent on one connection of the server: control frames first, then answers to commands, then
//! those with content in turn. Answers that have begun share their turns with those that have not, one by one, so that a
//! small file waits for one frame of the large ones, however many there are (as FQ-CoDel serves new flows, RFC 8290).
//!
//! An answer is one lane. A lane has credit, which the client gives, and a few slots: no more of its frames wait here,
//! whatever the credit, so a client that does not read costs little memory; and what all connections' frames hold
//! together is bounded by one budget.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::budget::Permit;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::metrics::UnsignedGauge;
use crate::sync::Mutex;
use crate::wire::answer_memory::AnswerMemory;
use crate::wire::chunk::Part;

/// Frames of one answer that may wait here.
const SLOTS_PER_LANE: usize = 3;
/// Frames of all answers of a connection that may wait here, at most 1 MiB each and mostly 128 or 512 KiB.
const SLOTS: usize = 48;
/// Credit that a client may pile up.
const MAX_CREDIT_BYTES: i64 = 1 << 30;

/// One frame to send, or the end of an answer.
pub enum Item {
    Data { part: Part, last: bool, _place: FrameSlot },
    Absent,
    Failure(Error),
}

impl Item {
    fn ends_its_lane(&self) -> bool {
        !matches!(self, Item::Data { last: false, .. })
    }
}

/// The right to have one frame waiting; counted as long as it waits.
pub struct FrameSlot {
    _of_lane: OwnedSemaphorePermit,
    _of_connection: Option<OwnedSemaphorePermit>,
    memory: Option<Permit>,
    queued: UnsignedGauge,
}

impl Drop for FrameSlot {
    fn drop(&mut self) {
        self.queued.dec();
    }
}

/// What an answer may overtake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    Content,
    /// The answer to a command: small, and awaited by those who judge a worker by the time that it takes. It must not wait
    /// behind content, or a full link would look like a slow worker.
    Command,
}

/// One answer under way.
pub struct Lane {
    pub id: u32,
    priority: Priority,
    pub gone: CancellationToken,
    credit: Mutex<i64>,
    more: Notify,
    slots: Arc<Semaphore>,
    /// Whether a frame of it was sent.
    has_begun: AtomicBool,
    /// How long credit is waited for.
    patience: Duration,
}

/// What the writer sends next.
pub enum Next {
    /// Whole frames.
    Control(Vec<u8>),
    Item(Arc<Lane>, Item),
}

pub struct Outbox {
    queues: Mutex<Queues>,
    filled: Notify,
    slots: Arc<Semaphore>,
    queued: UnsignedGauge,
    memory: Arc<AnswerMemory>,
    patience: Duration,
}

#[derive(Default)]
struct Queues {
    control: Vec<u8>,
    turns: Turns,
    lanes: HashMap<u32, (Arc<Lane>, VecDeque<Item>)>,
}

/// Lanes with something to send, each in one queue and once, the next one first.
#[derive(Default)]
struct Turns {
    commands: VecDeque<u32>,
    /// With their first frame.
    first: VecDeque<u32>,
    later: VecDeque<u32>,
    was_first: bool,
}

impl Lane {
    /// Adds to what may be sent.
    pub fn add_credit(&self, bytes: u32) {
        let mut credit = self.credit.lock();
        *credit = (*credit + i64::from(bytes)).min(MAX_CREDIT_BYTES);
        self.more.notify_one();
    }

    /// Takes `bytes` of credit as soon as there is any: the last frame may overdraw, so a window is never too small
    /// for a frame. With 0 it is only waited for. For one caller at a time; `Timeout` when the client gives none for too
    /// long.
    pub async fn take_credit(&self, bytes: u32) -> Result<()> {
        let take = async {
            while !self.try_take_credit(bytes) {
                self.more.notified().await;
            }
        };
        timeout(self.patience, take).await.map_err(|_| unread(self.patience))
    }

    fn try_take_credit(&self, bytes: u32) -> bool {
        let mut credit = self.credit.lock();
        let has_any = *credit > 0;
        *credit -= if has_any { i64::from(bytes) } else { 0 };
        has_any
    }
}

impl Outbox {
    /// An empty one, whose frames take their content's bytes of `memory`, and whose lanes wait `patience` for credit.
    pub fn new(queued: UnsignedGauge, memory: Arc<AnswerMemory>, patience: Duration) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(SLOTS));
        Arc::new(Outbox { queues: Mutex::default(), filled: Notify::new(), slots, queued, memory, patience })
    }

    /// A lane for a new answer; `None` when that request number is in use.
    pub fn open(&self, id: u32, priority: Priority, credit: u32, gone: CancellationToken) -> Option<Arc<Lane>> {
        let mut queues = self.queues.lock();
        if queues.lanes.contains_key(&id) {
            return None;
        }
        let (credit, slots) = (Mutex::new(i64::from(credit)), Arc::new(Semaphore::new(SLOTS_PER_LANE)));
        let (more, has_begun, patience) = (Notify::new(), AtomicBool::new(false), self.patience);
        let lane = Arc::new(Lane { id, priority, gone, credit, more, slots, has_begun, patience });
        queues.lanes.insert(id, (lane.clone(), VecDeque::new()));
        Some(lane)
    }

    /// Waits for room for one more frame of `lane`; `None` when the connection is over.
    pub async fn place(&self, lane: &Lane) -> Option<FrameSlot> {
        let of_lane = lane.slots.clone().acquire_owned().await.ok()?;
        let of_connection = match lane.priority {
            Priority::Content => Some(self.slots.clone().acquire_owned().await.ok()?),
            Priority::Command => None,
        };
        self.queued.inc();
        let queued = self.queued.clone();
        Some(FrameSlot { _of_lane: of_lane, _of_connection: of_connection, memory: None, queued })
    }

    /// Waits for memory for the `bytes` of a frame that has its place. What answers a command needs none: it is small.
    pub async fn take_memory(&self, place: &mut FrameSlot, lane: &Lane, bytes: u32) {
        if lane.priority == Priority::Content {
            place.memory = Some(self.memory.acquire(bytes).await);
        }
    }

    /// Queues `item`; false when nobody waits for it any more.
    pub fn push(&self, lane: &Lane, item: Item) -> bool {
        let mut queues = self.queues.lock();
        let Some((_, items)) = queues.lanes.get_mut(&lane.id).filter(|(open, _)| std::ptr::eq(&**open, lane)) else {
            return false;
        };
        items.push_back(item);
        if items.len() == 1 {
            queues.turns.add(lane);
        }
        drop(queues);
        self.filled.notify_one();
        true
    }

    /// Queues a whole control frame before all answers; false when absurdly many wait already.
    pub fn push_control(&self, frame: &[u8]) -> bool {
        const MOST_BYTES: usize = 256 << 10;
        let mut queues = self.queues.lock();
        if queues.control.len() > MOST_BYTES {
            return false;
        }
        queues.control.extend_from_slice(frame);
        drop(queues);
        self.filled.notify_one();
        true
    }

    /// The lane of an answer that is not complete.
    pub fn lane(&self, id: u32) -> Option<Arc<Lane>> {
        self.queues.lock().lanes.get(&id).map(|(lane, _)| lane.clone())
    }

    /// Forgets an answer: what it has queued is dropped, and whoever makes it is told.
    pub fn cancel(&self, id: u32) {
        let removed = self.queues.lock().lanes.remove(&id);
        if let Some((lane, _items)) = removed {
            lane.gone.cancel();
        }
    }

    /// True while an answer is not complete.
    pub fn is_busy(&self) -> bool {
        !self.queues.lock().lanes.is_empty()
    }

    /// The next thing to send. Of the lanes that have begun each has its turn before any has a second one.
    pub async fn next(&self) -> Next {
        loop {
            if let Some(next) = self.queues.lock().pop() {
                return next;
            }
            self.filled.notified().await;
        }
    }
}

impl Turns {
    fn add(&mut self, lane: &Lane) {
        let queue = match lane.priority {
            Priority::Command => &mut self.commands,
            Priority::Content if lane.has_begun.load(Ordering::Relaxed) => &mut self.later,
            Priority::Content => &mut self.first,
        };
        queue.push_back(lane.id);
    }

    fn take(&mut self) -> Option<u32> {
        if let Some(id) = self.commands.pop_front() {
            return Some(id);
        }
        self.was_first = !self.first.is_empty() && (!self.was_first || self.later.is_empty());
        if self.was_first { self.first.pop_front() } else { self.later.pop_front() }
    }
}

impl Queues {
    fn pop(&mut self) -> Option<Next> {
        if !self.control.is_empty() {
            return Some(Next::Control(std::mem::take(&mut self.control)));
        }
        while let Some(id) = self.turns.take() {
            // A lane that was cancelled may still have a turn.
            let Some((lane, items)) = self.lanes.get_mut(&id) else { continue };
            let Some(item) = items.pop_front() else { continue };
            let lane = lane.clone();
            lane.has_begun.store(true, Ordering::Relaxed);
            if item.ends_its_lane() {
                self.lanes.remove(&id);
            } else if !items.is_empty() {
                self.turns.add(&lane);
            }
            return Some(Next::Item(lane, item));
        }
        None
    }
}

fn unread(patience: Duration) -> Error {
    let message = format!("the peer that asked took nothing of its answer for {:.1} s", patience.as_secs_f64());
    Error::new(ErrorKind::Timeout, message).with_retry(Retry::Temporary)
}

#[cfg(test)]
mod tests;

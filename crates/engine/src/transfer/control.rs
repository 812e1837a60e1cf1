//! The state that the blocks of one request to an origin share: why it runs, who waits for it, and the means to stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::origin::Asker;

/// Why a span is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A reader waits for it.
    Demand,
    /// A sequential reader will want it.
    ReadAhead,
    /// A known order will want it.
    Prefetch,
    /// A warm-up wants it in the store; nobody is about to read it.
    Warm,
}

/// How a run of blocks is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the origin, or from who has it already.
    Alone,
    /// By another process, for both.
    Shared,
}

/// How a flight ended, for those who wait for the block rather than for bytes.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Stored,
    /// Fetched, but the store did not keep it.
    Declined(&'static str),
    Failed(Error),
}

/// What a reader gets from a flight.
#[derive(Debug)]
pub(crate) enum FlightAnswer {
    Ready(Vec<Bytes>),
    /// The flight has ended and no longer holds bytes: look again in the store.
    Gone,
    Failed(Error),
}

/// What all flights of one request share: how many wait, and the means to stop it.
#[derive(Debug)]
pub(crate) struct SpanControl {
    pub(crate) purpose: Purpose,
    pub(crate) asker: Asker,
    pub(crate) stop: CancellationToken,
    total_bytes: u64,
    arrived_bytes: AtomicU64,
    waiting: AtomicUsize,
    served: AtomicBool,
}

impl SpanControl {
    pub(crate) fn new(purpose: Purpose, total_bytes: u64) -> Arc<Self> {
        Arc::new(SpanControl {
            purpose,
            asker: if purpose == Purpose::Warm { Asker::Load } else { Asker::current() },
            stop: CancellationToken::new(),
            total_bytes,
            arrived_bytes: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            served: AtomicBool::new(false),
        })
    }

    /// Counts what has arrived.
    pub(super) fn arrived(&self, bytes: usize) {
        self.arrived_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes that a reader got bytes.
    pub(super) fn serve(&self) {
        self.served.store(true, Ordering::Release);
    }

    /// True when some reader got bytes.
    pub(crate) fn was_served(&self) -> bool {
        self.served.load(Ordering::Acquire)
    }

    /// A reader went away unanswered. A fetch that served nobody, that nobody waits for any more and that has brought
    /// less than a quarter is stopped; any other is worth finishing for the cache.
    fn abandon(&self, was_last: bool) {
        let early = self.arrived_bytes.load(Ordering::Relaxed) * 4 < self.total_bytes;
        let unwanted = was_last && self.purpose == Purpose::Demand && !self.was_served();
        if early && unwanted {
            self.stop.cancel();
        }
    }
}

/// A reader's place in the queue; dropping it takes the reader away.
pub(crate) struct FlightWaiter {
    receiver: oneshot::Receiver<FlightAnswer>,
    control: Arc<SpanControl>,
    answered: bool,
}

impl FlightWaiter {
    pub(super) fn new(receiver: oneshot::Receiver<FlightAnswer>, control: &Arc<SpanControl>) -> Self {
        control.waiting.fetch_add(1, Ordering::AcqRel);
        FlightWaiter { receiver, control: control.clone(), answered: false }
    }

    pub(crate) async fn answer(mut self) -> FlightAnswer {
        let answer = (&mut self.receiver).await.unwrap_or(FlightAnswer::Gone);
        self.answered = true;
        answer
    }
}

impl Drop for FlightWaiter {
    fn drop(&mut self) {
        let was_last = self.control.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
        if !self.answered {
            self.control.abandon(was_last);
        }
    }
}

//! Fetching whole files that nobody waits for: for a known order or a warm-up. Waits politely for requests and memory.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::block_memory::BlockMemory;
use super::claim::Span;
use super::context::Context;
use super::control::{Outcome, Purpose};
use super::fetch::Fetcher;
use super::source::Source;

/// One block of a file as background work finds it.
pub(crate) enum Found {
    /// In the store.
    Here { bytes: u64 },
    /// Coming, by us or by somebody else.
    Coming { bytes: u64, outcome: oneshot::Receiver<Outcome>, ours: bool },
}

/// Fetches behind all readers.
pub(super) struct Background {
    pub(super) context: Arc<Context>,
    pub(super) fetcher: Arc<Fetcher>,
    /// Requests that no reader waits for: three quarters of all, so that a reader always finds one free.
    pub(super) ahead_slots: Arc<Semaphore>,
    /// Those of them for prefetch and warm-up: half of all.
    pub(super) own_slots: Arc<Semaphore>,
}

impl Background {
    /// Walks blocks of a file in order and starts fetching what is missing, several blocks a request. Returns when
    /// the last request has been started, or when `each`, which gets every block once, answers false.
    pub(super) async fn fetch_missing(
        &self,
        source: &Source,
        blocks: Range<u32>,
        purpose: Purpose,
        mut each: impl FnMut(Found) -> bool,
    ) {
        let last = blocks.end.min(self.context.block_count(source));
        let mut index = blocks.start;
        while index < last {
            let bytes = self.context.block_length(source, index);
            let (blocks, go_on) = if let Some(flight) = self.context.flights.find(&source.block(index)) {
                (1, each(Found::Coming { bytes, outcome: flight.watch(), ours: false }))
            } else if self.context.expects(source, index) {
                (1, each(Found::Here { bytes }))
            } else {
                self.fetch_some(source, index..last, purpose, &mut each).await
            };
            if !go_on {
                return;
            }
            index += blocks;
        }
    }

    /// Starts one request at the start of `wanted`; how many blocks it covers (0 when somebody was faster), and whether
    /// to go on.
    async fn fetch_some(
        &self,
        source: &Source,
        wanted: Range<u32>,
        purpose: Purpose,
        each: &mut impl FnMut(Found) -> bool,
    ) -> (u32, bool) {
        let slots = self.slots().await;
        let first = wanted.start;
        let blocks = self.context.missing_run(source, first, self.context.span_blocks().min(wanted.end - first));
        if blocks == 0 {
            return (0, true);
        }
        let memory = self.memory_ahead(source, first, blocks).await;
        let Some(mut span) = Span::with_memory(&self.context, source, first, memory, purpose) else { return (0, true) };
        span.slots = slots;
        let mut go_on = true;
        for flight in &span.flights {
            go_on &= each(Found::Coming { bytes: u64::from(flight.length), outcome: flight.watch(), ours: true });
        }
        let claimed = span.flights.len() as u32;
        self.fetcher.start(span);
        (claimed, go_on)
    }

    async fn memory_ahead(&self, source: &Source, first: u32, blocks: u32) -> Vec<BlockMemory> {
        let mut memory = vec![self.context.memory.acquire_ahead(self.context.block_length(source, first)).await];
        let rest = first + 1..first + blocks;
        memory.extend(
            rest.map_while(|index| self.context.memory.try_acquire_ahead(self.context.block_length(source, index))),
        );
        memory
    }

    /// The right to one more background request: bounded by itself, and together with read-ahead, so that readers
    /// always find the origin free.
    async fn slots(&self) -> Vec<OwnedSemaphorePermit> {
        let wait = async |slots: &Arc<Semaphore>| slots.clone().acquire_owned().await.ok();
        let own = wait(&self.own_slots).await;
        let shared = wait(&self.ahead_slots).await;
        own.into_iter().chain(shared).collect()
    }
}

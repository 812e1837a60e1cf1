//! Fetching whole files that nobody waits for: for a known order or a warm-up. Waits politely for requests and memory.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::Transfer;
use super::block_memory::BlockMemory;
use super::control::{Outcome, Purpose};
use super::source::Source;

/// One block of a file as background work finds it.
pub(crate) enum Found {
    /// In the store.
    Here { bytes: u64 },
    /// Coming, by us or by somebody else.
    Coming { bytes: u64, outcome: oneshot::Receiver<Outcome>, ours: bool },
}

impl Transfer {
    /// Walks blocks of a file in order and starts fetching what is missing, several blocks a request. Returns when
    /// the last request has been started, or when `each`, which gets every block once, answers false.
    pub(crate) async fn fetch_missing(
        self: &Arc<Self>,
        source: &Source,
        blocks: Range<u32>,
        purpose: Purpose,
        mut each: impl FnMut(Found) -> bool,
    ) {
        let last = blocks.end.min(self.blocks(source));
        let mut index = blocks.start;
        while index < last {
            let bytes = self.block_length(source, index);
            let (blocks, go_on) = if let Some(flight) = self.flights.find(&source.block(index)) {
                (1, each(Found::Coming { bytes, outcome: flight.watch(), ours: false }))
            } else if self.expects(source, index) {
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
        self: &Arc<Self>,
        source: &Source,
        wanted: Range<u32>,
        purpose: Purpose,
        each: &mut impl FnMut(Found) -> bool,
    ) -> (u32, bool) {
        let slots = self.background_slots().await;
        let first = wanted.start;
        let blocks = self.missing_run(source, first, self.span_blocks().min(wanted.end - first));
        if blocks == 0 {
            return (0, true);
        }
        let memory = self.memory_ahead(source, first, blocks).await;
        let Some(mut span) = self.claim_with(source, first, memory, purpose) else { return (0, true) };
        span.slots = slots;
        let mut go_on = true;
        for flight in &span.flights {
            go_on &= each(Found::Coming { bytes: u64::from(flight.length), outcome: flight.watch(), ours: true });
        }
        let claimed = span.flights.len() as u32;
        self.start(span);
        (claimed, go_on)
    }

    async fn memory_ahead(&self, source: &Source, first: u32, blocks: u32) -> Vec<BlockMemory> {
        let mut memory = vec![self.memory.acquire_ahead(self.block_length(source, first)).await];
        let rest = first + 1..first + blocks;
        memory.extend(rest.map_while(|index| self.memory.try_acquire_ahead(self.block_length(source, index))));
        memory
    }

    /// The right to one more background request: bounded by itself, and together with read-ahead, so that readers
    /// always find the origin free.
    async fn background_slots(&self) -> Vec<OwnedSemaphorePermit> {
        let wait = async |slots: &Arc<Semaphore>| slots.clone().acquire_owned().await.ok();
        let own = wait(&self.background_slots).await;
        let shared = wait(&self.ahead_slots).await;
        own.into_iter().chain(shared).collect()
    }
}

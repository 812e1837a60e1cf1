//! Becoming the one who fetches: claims on missing blocks in a row.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::block_memory::BlockMemory;
use super::context::Context;
use super::control::{Purpose, SpanControl};
use super::flight::Flight;
use super::flights::Claim;
use super::source::Source;

/// Blocks in a row: up to `most` from `first` on, fetched from byte `start` of the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) first: u32,
    pub(crate) most: u32,
    pub(crate) start: u32,
}

/// Blocks in a row that one task fetches.
pub(crate) struct Span {
    pub(crate) source: Source,
    /// At least one, of consecutive blocks; only the first may have a head.
    pub(crate) flights: Vec<Arc<Flight>>,
    pub(crate) control: Arc<SpanControl>,
    /// The right to use the origin for something that no reader waits for.
    pub(crate) slots: Vec<OwnedSemaphorePermit>,
}

impl Run {
    /// Claims the blocks of this run up to the first that is here or coming; `None` when that is the first already.
    /// `insist` claims even what the store believes to have.
    pub(super) fn claim(self, context: &Context, source: &Source, purpose: Purpose, insist: bool) -> Option<Span> {
        let last = self.first.saturating_add(self.most.min(context.span_blocks())).min(context.block_count(source));
        let control = SpanControl::new(purpose, context.stretch_bytes(source, self.first, last));
        let mut flights = Vec::new();
        for index in self.first..last {
            let start = if index == self.first { self.start } else { 0 };
            match claim_block(context, source, index, start, &control, insist) {
                Some(flight) => flights.push(flight),
                None => break,
            }
        }
        (!flights.is_empty()).then(|| Span { source: source.clone(), flights, control, slots: Vec::new() })
    }
}

impl Span {
    /// Claims as many blocks as there is memory for and hands it to them.
    pub(super) fn with_memory(
        context: &Context,
        source: &Source,
        first: u32,
        memory: Vec<BlockMemory>,
        purpose: Purpose,
    ) -> Option<Self> {
        if memory.is_empty() {
            return None;
        }
        let span = Run { first, most: memory.len() as u32, start: 0 }.claim(context, source, purpose, false)?;
        for (flight, memory) in span.flights.iter().zip(memory) {
            flight.set_memory(memory);
        }
        Some(span)
    }
}

fn claim_block(
    context: &Context,
    source: &Source,
    index: u32,
    start: u32,
    control: &Arc<SpanControl>,
    insist: bool,
) -> Option<Arc<Flight>> {
    let id = source.block(index);
    let length = context.block_size.range(index, source.size()).length() as u32;
    let make = || Arc::new(Flight::new(source, id, length, start.min(length), control));
    match context.flights.claim(id, || !insist && context.in_store(source, index), make) {
        Claim::Mine(flight) => Some(flight),
        Claim::Taken | Claim::Stored => None,
    }
}

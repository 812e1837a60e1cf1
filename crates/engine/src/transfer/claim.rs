//! Becoming the one who fetches: claims on missing blocks in a row.

use std::sync::Arc;

use super::Transfer;
use super::control::{Purpose, SpanControl};
use super::fetch::Span;
use super::flight::Flight;
use super::flights::Claim;
use super::source::Source;
use crate::ids::ByteRange;

/// Blocks in a row: up to `most` from `first` on, fetched from byte `start` of the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) first: u32,
    pub(crate) most: u32,
    pub(crate) start: u32,
}

impl Transfer {
    /// Claims the blocks of `run` up to the first that is here or coming; `None` when that is the first already.
    /// `insist` claims even what the store believes to have.
    pub(crate) fn claim(&self, source: &Source, run: Run, purpose: Purpose, insist: bool) -> Option<Span> {
        let last = run.first.saturating_add(run.most.min(self.span_blocks())).min(self.blocks(source));
        let control = SpanControl::new(purpose, self.stretch_bytes(source, run.first, last));
        let mut flights = Vec::new();
        for index in run.first..last {
            let start = if index == run.first { run.start } else { 0 };
            match self.claim_block(source, index, start, &control, insist) {
                Some(flight) => flights.push(flight),
                None => break,
            }
        }
        (!flights.is_empty()).then(|| Span { source: source.clone(), flights, control, slots: Vec::new() })
    }

    fn claim_block(
        &self,
        source: &Source,
        index: u32,
        start: u32,
        control: &Arc<SpanControl>,
        insist: bool,
    ) -> Option<Arc<Flight>> {
        let id = source.block(index);
        let length = self.block_size.range(index, source.size()).length() as u32;
        let make = || Arc::new(Flight::new(source, id, length, start.min(length), control));
        match self.flights.claim(id, || !insist && self.in_store(source, index), make) {
            Claim::Mine(flight) => Some(flight),
            Claim::Taken | Claim::Stored => None,
        }
    }

    /// How many blocks from `first` on, at most `most`, are neither here nor coming.
    pub(crate) fn missing_run(&self, source: &Source, first: u32, most: u32) -> u32 {
        let last = first.saturating_add(most).min(self.blocks(source));
        (first..last).take_while(|index| !self.is_at_hand(source, *index)).count() as u32
    }

    /// True when the block is here or coming.
    pub(crate) fn is_at_hand(&self, source: &Source, index: u32) -> bool {
        self.flights.contains(&source.block(index)) || self.expects(source, index)
    }

    /// True when the block is probably on this machine; may ask the process that has it.
    pub(crate) fn expects(&self, source: &Source, index: u32) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.expects(&source.id(), index, source.size()))
    }

    /// The same under a lock: as far as is known without asking.
    fn in_store(&self, source: &Source, index: u32) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.may_contain(&source.id(), index))
    }

    pub(crate) fn blocks(&self, source: &Source) -> u32 {
        self.block_size.count(source.size())
    }

    pub(crate) fn block_length(&self, source: &Source, index: u32) -> u64 {
        self.block_size.range(index, source.size()).length()
    }

    fn stretch_bytes(&self, source: &Source, first: u32, last: u32) -> u64 {
        let block = u64::from(self.block_size.bytes());
        ByteRange { start: u64::from(first) * block, end: u64::from(last) * block }.clamp_to(source.size()).length()
    }
}

//! Fetching ahead of sequential readers, with what memory and requests the waiting readers leave free.

use std::sync::Arc;

use super::Transfer;
use super::block_memory::BlockMemory;
use super::claim::Run;
use super::control::Purpose;
use super::fetch::Span;
use super::reader::{Observed, Plan, ReaderState, Shape};
use super::source::Source;
use crate::ids::ByteRange;

impl Transfer {
    /// Follows the reader, who has to wait for `missed_bytes` of this read, and fetches ahead of it.
    pub(crate) fn advance(
        self: &Arc<Self>,
        source: &Source,
        range: ByteRange,
        missed_bytes: u64,
        reader: &ReaderState,
    ) {
        if range.start == 0 || range.end == source.size() {
            self.orders.reached(source.id());
        }
        if source.size() <= u64::from(self.block_size.bytes()) || range.is_empty() {
            return;
        }
        let shape = self.shape(source);
        let (at, answer_time) = (self.began.elapsed(), self.answer_time.least());
        let read = Observed { range, missed_bytes, at, answer_time };
        if let Some(plan) = reader.observe(&read, &shape) {
            let reached = self.fetch_ahead(source, &plan);
            if reached < plan.to {
                reader.pressed(&plan, reached, &shape);
            }
        }
    }

    /// Starts fetching a file that somebody will probably read next. False when memory or requests are short now.
    pub fn fetch_file_ahead(self: &Arc<Self>, source: &Source) -> bool {
        self.fetch_ahead(source, &Plan::whole(source.size())) >= source.size()
    }

    /// Starts requests for what of the plan is missing; the offset up to which all is at hand or coming.
    pub(crate) fn fetch_ahead(self: &Arc<Self>, source: &Source, plan: &Plan) -> u64 {
        let block = u64::from(self.block_size.bytes());
        let last = self.block_size.count(plan.to);
        let most = (plan.span_bytes / block).max(1) as u32;
        let mut index = self.block_size.index_of(plan.from);
        while index < last {
            match self.missing_run(source, index, most.min(last - index)) {
                0 => index += 1,
                blocks => match self.try_span_ahead(source, index, blocks) {
                    Some(span) => {
                        index += span.flights.len() as u32;
                        self.start(span);
                    }
                    None => return u64::from(index) * block,
                },
            }
        }
        plan.to
    }

    fn try_span_ahead(&self, source: &Source, first: u32, blocks: u32) -> Option<Span> {
        let slot = self.ahead_slots.clone().try_acquire_owned().ok()?;
        let memory: Vec<_> = (first..first + blocks)
            .map_while(|index| self.memory.try_acquire_ahead(self.block_length(source, index)))
            .collect();
        let mut span = self.claim_with(source, first, memory, Purpose::ReadAhead)?;
        span.slots.push(slot);
        Some(span)
    }

    /// Claims as many blocks as there is memory for and hands it to them.
    pub(crate) fn claim_with(
        &self,
        source: &Source,
        first: u32,
        memory: Vec<BlockMemory>,
        purpose: Purpose,
    ) -> Option<Span> {
        if memory.is_empty() {
            return None;
        }
        let span = self.claim(source, Run { first, most: memory.len() as u32, start: 0 }, purpose, false)?;
        for (flight, memory) in span.flights.iter().zip(memory) {
            flight.set_memory(memory);
        }
        Some(span)
    }

    fn shape(&self, source: &Source) -> Shape {
        // One reader gets at most a quarter of the memory, however alone it is now.
        let max_window = self.config.readahead_bytes.min(self.memory.limit() / 4);
        Shape { size: source.size(), block_size: self.block_size, max_window }
    }
}

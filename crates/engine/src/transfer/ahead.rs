//! Fetching ahead of sequential readers, with what memory and requests the waiting readers leave free.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;

use super::claim::Span;
use super::context::Context;
use super::control::Purpose;
use super::fetch::Fetcher;
use super::order::Orders;
use super::reader::{Observed, Plan, ReaderState, Shape};
use super::source::Source;
use crate::ids::ByteRange;

/// Fetches what readers will want next.
pub(super) struct ReadAhead {
    pub(super) context: Arc<Context>,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) orders: Arc<Orders>,
    /// Requests that no reader waits for.
    pub(super) slots: Arc<Semaphore>,
    /// Most bytes ahead of one reader.
    pub(super) most_bytes: u64,
    /// What readers' times count from.
    pub(super) began: Instant,
}

impl ReadAhead {
    /// Follows the reader, who has to wait for `missed_bytes` of this read, and fetches ahead of it.
    pub(super) fn advance(&self, source: &Source, range: ByteRange, missed_bytes: u64, reader: &ReaderState) {
        if range.start == 0 || range.end == source.size() {
            self.orders.reached(source.id());
        }
        if source.size() <= u64::from(self.context.block_size.bytes()) || range.is_empty() {
            return;
        }
        let shape = self.shape(source);
        let (at, answer_time) = (self.began.elapsed(), self.context.answer_time.least());
        let read = Observed { range, missed_bytes, at, answer_time };
        if let Some(plan) = reader.observe(&read, &shape) {
            let reached = self.fetch(source, &plan);
            if reached < plan.to {
                reader.pressed(&plan, reached, &shape);
            }
        }
    }

    /// Starts fetching a file that somebody will probably read next. False when memory or requests are short now.
    pub(super) fn fetch_file(&self, source: &Source) -> bool {
        self.fetch(source, &Plan::whole(source.size())) >= source.size()
    }

    /// Starts requests for what of the plan is missing; the offset up to which all is at hand or coming.
    fn fetch(&self, source: &Source, plan: &Plan) -> u64 {
        let block = u64::from(self.context.block_size.bytes());
        let last = self.context.block_size.count(plan.to);
        let most = (plan.span_bytes / block).max(1) as u32;
        let mut index = self.context.block_size.index_of(plan.from);
        while index < last {
            match self.context.missing_run(source, index, most.min(last - index)) {
                0 => index += 1,
                blocks => match self.try_span(source, index, blocks) {
                    Some(span) => {
                        index += span.flights.len() as u32;
                        self.fetcher.start(span);
                    }
                    None => return u64::from(index) * block,
                },
            }
        }
        plan.to
    }

    fn try_span(&self, source: &Source, first: u32, blocks: u32) -> Option<Span> {
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        let memory: Vec<_> = (first..first + blocks)
            .map_while(|index| self.context.memory.try_acquire_ahead(self.context.block_length(source, index)))
            .collect();
        let mut span = Span::with_memory(&self.context, source, first, memory, Purpose::ReadAhead)?;
        span.slots.push(slot);
        Some(span)
    }

    fn shape(&self, source: &Source) -> Shape {
        // One reader gets at most a quarter of the memory, however alone it is now.
        let max_window = self.most_bytes.min(self.context.memory.limit() / 4);
        Shape { size: source.size(), block_size: self.context.block_size, max_window }
    }

    /// Starts fetching what is missing of `range` for a reader that is about to ask for it, if memory and requests allow.
    pub(super) fn fetch_soon(&self, source: &Source, range: ByteRange) {
        let block = u64::from(self.context.block_size.bytes());
        let from = range.start.next_multiple_of(block);
        if from < range.end {
            self.fetch(source, &Plan::stretch(from, range.end));
        }
    }
}

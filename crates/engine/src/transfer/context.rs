//! The means that all parts of a transfer share: where blocks are kept and remembered, the memory for them, the tasks.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer_time::AnswerTime;
use super::flight::Flight;
use super::flights::Flights;
use super::memory::Memory;
use super::reader::MAX_SPAN_BYTES;
use super::source::Source;
use crate::ids::{BlockSize, ByteRange};
use crate::metrics::Metrics;
use crate::origin::Checksums;
use crate::store::Blocks;

/// The state and the means that all parts of one transfer share.
pub(super) struct Context {
    pub(super) blocks: Option<Arc<dyn Blocks>>,
    pub(super) runtime: Handle,
    pub(super) block_size: BlockSize,
    pub(super) metrics: Metrics,
    pub(super) flights: Arc<Flights>,
    pub(super) memory: Memory,
    pub(super) tasks: TaskTracker,
    pub(super) closing: CancellationToken,
    pub(super) answer_time: AnswerTime,
}

impl Context {
    /// Runs `task` until it ends; `Transfer::close` waits for it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.tasks.spawn_on(task, &self.runtime));
    }

    /// Most blocks of one request.
    pub(super) fn span_blocks(&self) -> u32 {
        // An eighth of the memory: several requests must fit beside each other.
        let bytes = MAX_SPAN_BYTES.min(self.memory.limit() / 8);
        (bytes / u64::from(self.block_size.bytes())).max(1) as u32
    }

    pub(super) fn block_count(&self, source: &Source) -> u32 {
        self.block_size.count(source.size())
    }

    pub(super) fn block_length(&self, source: &Source, index: u32) -> u64 {
        self.block_size.range(index, source.size()).length()
    }

    /// Where the block begins in its file.
    pub(super) fn block_start(&self, flight: &Flight) -> u64 {
        u64::from(flight.id.index) * u64::from(self.block_size.bytes())
    }

    /// Bytes of the blocks from `first` on up to `last`, which is not one of them.
    pub(super) fn stretch_bytes(&self, source: &Source, first: u32, last: u32) -> u64 {
        let block = u64::from(self.block_size.bytes());
        ByteRange { start: u64::from(first) * block, end: u64::from(last) * block }.clamp_to(source.size()).length()
    }

    /// How many blocks from `first` on, at most `most`, are neither here nor coming.
    pub(super) fn missing_run(&self, source: &Source, first: u32, most: u32) -> u32 {
        let last = first.saturating_add(most).min(self.block_count(source));
        (first..last).take_while(|index| !self.is_at_hand(source, *index)).count() as u32
    }

    /// True when the block is here or coming.
    pub(super) fn is_at_hand(&self, source: &Source, index: u32) -> bool {
        self.flights.contains(&source.block(index)) || self.expects(source, index)
    }

    /// True when the block is probably on this machine; may ask the process that has it.
    pub(super) fn expects(&self, source: &Source, index: u32) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.expects(&source.id(), index, source.size()))
    }

    /// The same under a lock: as far as is known without asking.
    pub(super) fn in_store(&self, source: &Source, index: u32) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.may_contain(&source.id(), index))
    }

    /// True for files of one block whose only answer may tell their checksum.
    pub(super) fn comes_with_checksum(&self, source: &Source) -> bool {
        self.block_count(source) == 1 && source.origin().capability().checksums == Checksums::WithContent
    }
}

//! Transfers of data: single-flight fills, read-ahead, prefetch and warm-up.
//!
//! - `context`: what all parts work with; `memory`, `flights`, `flight`: the blocks on their way, all of whose bytes count
//!   against one budget; `disk`: work that has to wait for a disk, on threads of its own;
//! - `claim`, `fetch`: every missing block is fetched by one task, whoever and however many want it: by a request to the
//!   origin (`request`, `delivery`), by another process for both, waited for without memory (`shared`), or by another
//!   process of this machine that stores it at once (`brought`); `settle`, `proof`: what becomes of it then;
//! - `lookup`, `read`: a reader gets its range as soon as it has arrived; `reader`, `ahead`: what a sequential reader will
//!   want next is fetched with long requests, several at a time;
//! - `background`: what nobody waits for uses what that leaves: known orders (`order`, `prefetch`), warm-ups (`warm`) and
//!   what others ask for (`hold`).
//!
//! Each is an object that knows those named before it, and none of those after. Knows neither names nor inodes: `vfs` does.

mod ahead;
mod answer_time;
mod assembly;
mod background;
mod block_memory;
mod brought;
mod claim;
mod context;
mod control;
mod delivery;
mod disk;
mod disk_read;
mod faults;
mod fetch;
mod flight;
mod flights;
mod hold;
mod judging;
mod kept;
mod lookup;
mod memory;
mod order;
mod pace;
mod pieces;
mod prefetch;
mod progress;
mod proof;
mod read;
mod reader;
mod reply;
mod request;
mod settle;
mod shared;
mod source;
mod sums;
mod sums_here;
mod warm;
mod warm_job;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;

use crate::budget::Budgets;
use crate::config::TransferConfig;
use crate::error::Result;
use crate::ids::{BlockId, BlockSize, ByteRange, FileKey};
use crate::metrics::Metrics;
use crate::store::Blocks;

use ahead::ReadAhead;
use brought::Bringer;
use context::Context;
use hold::Holder;
use order::Orders;
use prefetch::Prefetcher;
use proof::Comparisons;
use read::Reads;
use warm::Warmer;

pub(crate) use disk::{on_disks, unless_disks_hang};
pub use disk_read::{AtHand, DiskRead, Disks};
pub use hold::HoldOutcome;
pub use order::{OrderedFiles, Prefetch};
pub use progress::{WarmProgress, WarmState};
pub use proof::Mismatch;
pub use reader::ReaderState;
pub use reply::{Piece, Reply, StoredPart};
pub use source::Source;
pub use warm_job::WarmJob;

/// The one that fetches, for all readers of one engine.
pub struct Transfer {
    context: Arc<Context>,
    comparisons: Arc<Comparisons>,
    bringer: Arc<Bringer>,
    orders: Arc<Orders>,
    ahead: Arc<ReadAhead>,
    reads: Reads,
    prefetcher: Arc<Prefetcher>,
    warmer: Arc<Warmer>,
    holder: Holder,
}

impl Transfer {
    /// A transfer over `blocks` (`None`: nothing is kept), whose tasks run on `runtime`. `Config` when the block size is
    /// impossible.
    pub fn new(
        blocks: Option<Arc<dyn Blocks>>,
        runtime: Handle,
        budgets: Budgets,
        metrics: Metrics,
        config: TransferConfig,
    ) -> Result<Arc<Self>> {
        assembly::assemble(blocks, runtime, budgets, metrics, &config).map(Arc::new)
    }

    /// The blocks of this machine that it reads from.
    pub fn store(&self) -> Option<&Arc<dyn Blocks>> {
        self.context.blocks.as_ref()
    }

    pub fn block_size(&self) -> BlockSize {
        self.context.block_size
    }

    /// Blocks on their way or kept in memory now.
    pub fn blocks_in_memory(&self) -> usize {
        self.context.flights.count()
    }

    /// Stops all fetches (their readers get `Cancelled`), waits until complete blocks are in the store, and gives all
    /// memory back.
    pub async fn close(&self) {
        self.context.closing.cancel();
        self.context.tasks.close();
        self.context.tasks.wait().await;
        self.context.memory.drop_kept();
    }

    /// The bytes of `range` (cut off at the end of the file) if all of them are on this machine: in the store or in
    /// memory. Never waits; `None` when `read` would have to. What is in the store may yet have to be read from disk.
    pub fn read_cached(&self, source: &Source, range: ByteRange, reader: &ReaderState) -> Result<Option<Reply>> {
        self.reads.read_cached(source, range, reader)
    }

    /// The bytes of `range` (cut off at the end of the file) as far as they can be had without an origin. `takes_disk`: the
    /// caller has a thread that may wait for a disk; what lies on one is missing otherwise.
    pub fn at_hand(&self, source: &Source, range: ByteRange, reader: &ReaderState, takes_disk: bool) -> AtHand<Reply> {
        self.reads.at_hand(source, range, reader, takes_disk)
    }

    /// Copies the bytes from `offset` on into `buffer`, if neither an origin nor a disk is needed for them: how many bytes,
    /// fewer than it holds only at the end of the file.
    pub fn copy_at_once(&self, source: &Source, offset: u64, buffer: &mut [u8], reader: &ReaderState) -> Option<usize> {
        self.reads.copy_at_once(source, offset, buffer, reader)
    }

    /// The bytes of `range` (cut off at the end of the file) if all of them are in memory. Nothing is counted or fetched
    /// for it.
    pub fn in_memory(&self, source: &Source, range: ByteRange) -> Option<Vec<u8>> {
        self.reads.in_memory(source, range)
    }

    /// The bytes of `range`, which lies in one block, if they are here or on their way with memory of their own: waits
    /// for those, and never for memory. `None` when it would have to.
    pub async fn read_at_hand(&self, source: &Source, range: ByteRange, reader: &ReaderState) -> Result<Option<Reply>> {
        self.reads.read_at_hand(source, range, reader).await
    }

    /// The bytes of `range` (cut off at the end of the file), fetching what is missing. Dropping the future takes this
    /// reader away and nobody else. Bytes that are not in the store yet come back in memory, outside of the budget:
    /// read long ranges in steps of some megabytes.
    pub async fn read(&self, source: &Source, range: ByteRange, reader: &ReaderState) -> Result<Reply> {
        self.reads.read(source, range, reader).await
    }

    /// The bytes of a part: at once if they are in memory, else from the disk. `Timeout` when that hangs.
    pub async fn load(&self, part: StoredPart) -> Result<Bytes> {
        disk::load(&self.context.runtime, part).await
    }

    /// Somebody reads `source` without asking here for its bytes (through passthrough): known orders move on.
    pub fn note_reading(&self, source: &Source) {
        self.orders.reached(source.id());
    }

    /// Starts fetching a file that somebody will probably read next. False when memory or requests are short now.
    pub fn fetch_file_ahead(&self, source: &Source) -> bool {
        self.ahead.fetch_file(source)
    }

    /// Starts fetching what is missing of `range` for a reader that is about to ask for it, if memory and requests allow.
    pub fn fetch_soon(&self, source: &Source, range: ByteRange) {
        self.ahead.fetch_soon(source, range);
    }

    /// Fetches `files` in their order, ahead of the client that is going to read them. Replaces the order that the same
    /// client gave before.
    pub fn prefetch(&self, client: u64, files: Arc<dyn OrderedFiles>) -> Arc<Prefetch> {
        self.prefetcher.prefetch(client, files)
    }

    /// Brings `files` into the store, in their order, at the speed of the link. `Config` when there is no cache.
    pub fn warm(&self, files: Arc<dyn OrderedFiles>) -> Result<Arc<WarmJob>> {
        self.warmer.warm(files)
    }

    /// Brings blocks of a file into the store and looks whether they are there. Waits for memory and requests behind
    /// all readers.
    pub async fn hold(&self, source: &Source, blocks: Range<u32>) -> HoldOutcome {
        self.holder.hold(source, blocks).await
    }

    /// Fetches what is missing of these blocks as for a reader, and waits until the first is in the store; how many are
    /// there then, from the first on. 0 where the store does not keep it.
    pub async fn bring(&self, source: &Source, blocks: Range<u32>) -> Result<u32> {
        self.holder.bring(source, blocks).await
    }

    /// How long somebody may wait for bytes of a block that another process is storing, before they are fetched as ever.
    pub fn set_bring_patience(&self, patience: Duration) {
        self.bringer.set_patience(patience);
    }

    /// Compares a file of which all is in the store with the origin's checksum, whatever the kind; gives a file that was
    /// refused another try. `Corrupt` when it differs: it is dropped then. Files that are not whole, or proven already,
    /// are left alone.
    pub async fn compare(&self, source: &Source) -> Result<()> {
        self.comparisons.compare(source).await
    }

    /// The last files of which other bytes came than the origin's checksum says.
    pub fn mismatches(&self) -> Vec<Mismatch> {
        self.comparisons.mismatches()
    }

    /// True when all bytes of the block are in memory, so that nobody need fetch them.
    pub fn holds_in_memory(&self, id: &BlockId) -> bool {
        self.context.flights.holds(id)
    }

    /// Waits until the blocks that are being fetched now are here, or given up; no longer than `at_most`.
    pub async fn land(&self, at_most: Duration) {
        self.context.flights.land(at_most).await;
    }

    /// The blocks of which all bytes are in memory, and that are on their way to the store or were not taken by it.
    pub fn blocks_in_memory_alone(&self) -> Vec<(Arc<FileKey>, u32)> {
        self.context.flights.in_memory_alone()
    }
}

impl std::fmt::Debug for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transfer({} blocks in memory)", self.blocks_in_memory())
    }
}

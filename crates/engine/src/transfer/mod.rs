//! Transfers of data: single-flight fills, read-ahead, prefetch and warm-up.
//!
//! Every missing block is fetched by one task, whoever and however many want it (`flights`, `flight`, `fetch`); a reader
//! gets its range as soon as it has arrived (`read`); what another process fetches for both is waited for without memory
//! (`shared`); what a sequential reader will want next is fetched with long requests, several at a time (`reader`,
//! `ahead`), or stored by another process of this machine at once (`brought`); known orders and warm-ups use what that
//! leaves (`order`, `warm`).
//! Work that has to wait for a disk does so on threads of its own (`disk`). All bytes on the way count against one
//! memory budget (`memory`). Knows neither names nor inodes: `vfs` does.

mod again;
mod ahead;
mod answer_time;
mod background;
mod block_memory;
mod brought;
mod claim;
mod control;
mod disk;
mod disk_read;
mod fetch;
mod flight;
mod flights;
mod hold;
mod judging;
mod kept;
mod landing;
mod memory;
mod order;
mod pace;
mod pieces;
mod progress;
mod proof;
mod read;
mod reader;
mod reply;
mod settle;
mod shared;
mod source;
mod sums;
mod sums_here;
mod warm;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::budget::Budgets;
use crate::config::TransferConfig;
use crate::error::{Error, Result};
use crate::ids::BlockSize;
use crate::metrics::Metrics;
use crate::store::Blocks;

use answer_time::AnswerTime;
use brought::Bringing;
use flights::Flights;
use memory::Memory;
use order::Orders;
use proof::Doubts;
use sums::Sums;

pub(crate) use disk::{on_disks, unless_disks_hang};
pub use disk_read::{DiskRead, Disks};
pub use hold::HoldOutcome;
pub use order::{OrderedFiles, Prefetch};
pub use progress::{WarmProgress, WarmState};
pub use proof::Mismatch;
pub use reader::ReaderState;
pub use reply::{Piece, Reply, StoredPart};
pub use source::Source;
pub use warm::WarmJob;

/// The one that fetches, for all readers of one engine.
pub struct Transfer {
    blocks: Option<Arc<dyn Blocks>>,
    runtime: Handle,
    block_size: BlockSize,
    config: TransferConfig,
    metrics: Metrics,
    flights: Arc<Flights>,
    memory: Memory,
    /// Requests that no reader waits for: three quarters of all, so that a reader always finds one free.
    ahead_slots: Arc<Semaphore>,
    /// Those of them for prefetch and warm-up: half of all.
    background_slots: Arc<Semaphore>,
    put_slots: Semaphore,
    /// Declined blocks are offered to the store again now and then.
    is_offering: AtomicBool,
    orders: Orders,
    doubts: Doubts,
    sums: Sums,
    tasks: TaskTracker,
    closing: CancellationToken,
    /// What readers' times count from.
    began: Instant,
    answer_time: AnswerTime,
    bringing: Bringing,
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
        let block_size = BlockSize::new(config.block_size_bytes).ok_or_else(|| {
            let bytes = config.block_size_bytes;
            Error::config(format!("a block size of {bytes} bytes is not possible")).with_hint(format!(
                "choose a power of two from {} to {}",
                BlockSize::MIN,
                BlockSize::MAX
            ))
        })?;
        let flights = Arc::new(Flights::new());
        let writers = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8));
        Ok(Arc::new(Transfer {
            sums: Sums::new(runtime.clone()),
            blocks,
            runtime,
            block_size,
            memory: Memory::new(budgets.memory, flights.clone()),
            ahead_slots: Arc::new(Semaphore::new((config.concurrency * 3 / 4).max(1))),
            background_slots: Arc::new(Semaphore::new((config.concurrency / 2).max(1))),
            put_slots: Semaphore::new(writers),
            is_offering: AtomicBool::new(false),
            orders: Orders::new(metrics.prefetch_queue.clone()),
            doubts: Doubts::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            began: Instant::now(),
            answer_time: AnswerTime::default(),
            bringing: Bringing::default(),
            config,
            metrics,
            flights,
        }))
    }

    /// The blocks of this machine that it reads from.
    pub fn store(&self) -> Option<&Arc<dyn Blocks>> {
        self.blocks.as_ref()
    }

    pub fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Blocks on their way or kept in memory now.
    pub fn blocks_in_memory(&self) -> usize {
        self.flights.count()
    }

    /// Stops all fetches (their readers get `Cancelled`), waits until complete blocks are in the store, and gives all
    /// memory back.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.memory.drop_kept();
    }

    /// Most blocks of one request.
    fn span_blocks(&self) -> u32 {
        // An eighth of the memory: several requests must fit beside each other.
        let bytes = reader::MAX_SPAN_BYTES.min(self.memory.limit() / 8);
        (bytes / u64::from(self.block_size.bytes())).max(1) as u32
    }
}

impl std::fmt::Debug for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transfer({} blocks in memory)", self.blocks_in_memory())
    }
}

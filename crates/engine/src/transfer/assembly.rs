//! How the parts of a transfer are put together.

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Transfer;
use super::ahead::ReadAhead;
use super::answer_time::AnswerTime;
use super::background::Background;
use super::brought::Bringer;
use super::context::Context;
use super::delivery::Delivery;
use super::fetch::Fetcher;
use super::flights::Flights;
use super::hold::Holder;
use super::lookup::Lookup;
use super::memory::Memory;
use super::order::Orders;
use super::prefetch::Prefetcher;
use super::proof::Comparisons;
use super::read::Reads;
use super::request::Requests;
use super::settle::Settler;
use super::shared::SharedFetches;
use super::sums::Sums;
use super::warm::Warmer;
use crate::budget::Budgets;
use crate::config::TransferConfig;
use crate::error::{Error, Result};
use crate::ids::BlockSize;
use crate::metrics::Metrics;
use crate::store::Blocks;

/// The parts, over `blocks` and on `runtime`.
pub(super) fn assemble(
    blocks: Option<Arc<dyn Blocks>>,
    runtime: Handle,
    budgets: Budgets,
    metrics: Metrics,
    config: &TransferConfig,
) -> Result<Transfer> {
    let block_size = block_size(config)?;
    let flights = Arc::new(Flights::new());
    let context = Arc::new(Context {
        blocks,
        runtime,
        block_size,
        memory: Memory::new(budgets.memory, flights.clone()),
        tasks: TaskTracker::new(),
        closing: CancellationToken::new(),
        answer_time: AnswerTime::default(),
        metrics,
        flights,
    });
    Ok(of_context(context, config))
}

fn of_context(context: Arc<Context>, config: &TransferConfig) -> Transfer {
    let comparisons = Comparisons::new(&context);
    let settler = Settler::new(&context, &comparisons);
    let (fetcher, bringer) = fetcher(&context, &comparisons, &settler);
    let ahead_slots = Arc::new(Semaphore::new((config.concurrency * 3 / 4).max(1)));
    let orders = Arc::new(Orders::new(context.metrics.prefetch_queue.clone()));
    let ahead = Arc::new(ReadAhead {
        context: context.clone(),
        fetcher: fetcher.clone(),
        orders: orders.clone(),
        slots: ahead_slots.clone(),
        most_bytes: config.readahead_bytes,
        began: Instant::now(),
    });
    let background = Arc::new(Background {
        context: context.clone(),
        fetcher: fetcher.clone(),
        ahead_slots,
        own_slots: Arc::new(Semaphore::new((config.concurrency / 2).max(1))),
    });
    Transfer {
        reads: Reads {
            context: context.clone(),
            lookup: Lookup { context: context.clone() },
            fetcher: fetcher.clone(),
            ahead: ahead.clone(),
        },
        prefetcher: Arc::new(Prefetcher {
            context: context.clone(),
            background: background.clone(),
            orders: orders.clone(),
        }),
        warmer: Arc::new(Warmer {
            context: context.clone(),
            background: background.clone(),
            settler: settler.clone(),
            comparisons: comparisons.clone(),
        }),
        holder: Holder { context: context.clone(), fetcher, ahead: ahead.clone(), background, settler },
        context,
        comparisons,
        bringer,
        orders,
        ahead,
    }
}

fn block_size(config: &TransferConfig) -> Result<BlockSize> {
    BlockSize::new(config.block_size_bytes).ok_or_else(|| {
        let bytes = config.block_size_bytes;
        Error::config(format!("a block size of {bytes} bytes is not possible")).with_hint(format!(
            "choose a power of two from {} to {}",
            BlockSize::MIN,
            BlockSize::MAX
        ))
    })
}

fn fetcher(
    context: &Arc<Context>,
    comparisons: &Arc<Comparisons>,
    settler: &Arc<Settler>,
) -> (Arc<Fetcher>, Arc<Bringer>) {
    let delivery = Arc::new(Delivery { context: context.clone(), settler: settler.clone() });
    let requests = Arc::new(Requests {
        context: context.clone(),
        comparisons: comparisons.clone(),
        delivery: delivery.clone(),
        sums: Sums::new(context.runtime.clone()),
    });
    let bringer = Bringer::new(context, &delivery, &requests);
    let shared = SharedFetches { context: context.clone(), delivery, requests: requests.clone() };
    let fetcher = Arc::new(Fetcher {
        context: context.clone(),
        comparisons: comparisons.clone(),
        requests,
        shared,
        bringer: bringer.clone(),
    });
    (fetcher, bringer)
}

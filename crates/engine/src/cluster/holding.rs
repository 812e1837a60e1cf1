//! Having owners hold blocks: loads ask for whole files, a worker that leaves for what it has.
//!
//! Each order goes to the primary first, which fetches, and then to the other owners, which take it from the primary.
//! When all were carried out, all are asked once more: "complete" means that every byte was seen in the end. Doing the
//! same again skips what is there, so an interrupted load goes on where it was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::Cluster;
use super::orders::HoldOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::BlockSize;
use crate::ring::{Member, MemberState, Ring, StripeId};
use crate::sync::{Condvar, Mutex};
use crate::wire::PeerCommand;

/// Orders under way at the same time.
const UNDER_WAY: usize = 64;
/// Errors kept word for word.
const KEPT_ERRORS: usize = 100;
/// Tries of one order, with a pause between them: members come and go.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldState {
    Holding,
    Verifying,
    Complete,
    Incomplete,
    Cancelled,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldProgress {
    pub state: HoldState,
    /// Bytes that every owner holds.
    pub done_bytes: u64,
    pub total_bytes: u64,
    pub done_files: u64,
    pub total_files: u64,
    pub fetched_bytes: u64,
    pub declined_bytes: u64,
    /// Blocks that did not match their checksums, and were dropped.
    pub corrupt_blocks: u64,
    pub errors: Vec<String>,
    /// What each owner had cached in all when it was asked last, by its id.
    pub cached_by_worker: BTreeMap<String, u64>,
}

/// All that is to be held, in order; may be gone through twice.
pub trait Orders: Send + Sync + 'static {
    /// Known beforehand, as are the bytes: whoever follows the job asks several times a second.
    fn total_files(&self) -> u64;

    fn total_bytes(&self) -> u64;

    fn iterate(&self) -> Box<dyn Iterator<Item = HoldOrder> + Send + '_>;
}

/// How orders are to be carried out.
#[derive(Debug, Clone, Copy, Default)]
pub struct HoldWish {
    /// Owners that are to hold each block; as many as the view says without.
    pub replicas: Option<u32>,
    pub bytes_per_second: Option<u64>,
    /// What is held already is compared with its checksums first; what is fetched is anyway.
    pub verify: bool,
    /// What the owners have no room for is let go: all is done when they hold the rest.
    pub lets_go: bool,
}

/// Orders under way.
pub struct HoldJob {
    orders: Arc<dyn Orders>,
    block_size: BlockSize,
    wish: HoldWish,
    corrupt_blocks: AtomicU64,
    done_bytes: AtomicU64,
    done_files: AtomicU64,
    fetched_bytes: AtomicU64,
    declined_bytes: AtomicU64,
    errors: Mutex<Vec<String>>,
    cached_by_worker: Mutex<BTreeMap<String, u64>>,
    state: Mutex<HoldState>,
    changed: Condvar,
    cancelled: CancellationToken,
}

/// What all owners of one order said.
#[derive(Debug, Default, Clone, Copy)]
struct Said {
    held_bytes: u64,
    fetched_bytes: u64,
    declined_bytes: u64,
}

impl HoldState {
    pub fn is_end(self) -> bool {
        !matches!(self, HoldState::Holding | HoldState::Verifying)
    }
}

impl HoldJob {
    /// Starts having `orders` held by their owners.
    pub fn start(cluster: &Arc<Cluster>, orders: Arc<dyn Orders>, block_size: BlockSize, wish: HoldWish) -> Arc<Self> {
        let job = Arc::new(HoldJob {
            orders,
            block_size,
            wish,
            corrupt_blocks: AtomicU64::new(0),
            done_bytes: AtomicU64::new(0),
            done_files: AtomicU64::new(0),
            fetched_bytes: AtomicU64::new(0),
            declined_bytes: AtomicU64::new(0),
            errors: Mutex::default(),
            cached_by_worker: Mutex::default(),
            state: Mutex::new(HoldState::Holding),
            changed: Condvar::new(),
            cancelled: CancellationToken::new(),
        });
        let (running, cluster) = (job.clone(), cluster.clone());
        cluster.runtime.clone().spawn(async move {
            let end = tokio::select! {
                () = running.cancelled.cancelled() => HoldState::Cancelled,
                () = cluster.closing.cancelled() => HoldState::Cancelled,
                end = running.run(&cluster) => end,
            };
            running.enter(end);
        });
        job
    }

    pub fn progress(&self) -> HoldProgress {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        HoldProgress {
            state: *self.state.lock(),
            done_bytes: read(&self.done_bytes),
            total_bytes: self.orders.total_bytes(),
            done_files: read(&self.done_files),
            total_files: self.orders.total_files(),
            fetched_bytes: read(&self.fetched_bytes),
            declined_bytes: read(&self.declined_bytes),
            corrupt_blocks: read(&self.corrupt_blocks),
            errors: self.errors.lock().clone(),
            cached_by_worker: self.cached_by_worker.lock().clone(),
        }
    }

    pub fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Blocks this thread; true when the job has ended within `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        while !state.is_end() {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return state.is_end();
            }
        }
        true
    }

    fn enter(&self, state: HoldState) {
        *self.state.lock() = state;
        self.changed.notify_all();
    }

    async fn run(self: &Arc<Self>, cluster: &Arc<Cluster>) -> HoldState {
        if self.wish.verify {
            self.compare(cluster).await;
        }
        self.go_through(cluster, self.wish.bytes_per_second).await;
        self.enter(HoldState::Verifying);
        self.done_bytes.store(0, Ordering::Relaxed);
        self.done_files.store(0, Ordering::Relaxed);
        self.errors.lock().clear();
        let declined_before = self.declined_bytes.load(Ordering::Relaxed);
        self.go_through(cluster, None).await;
        let declined = self.declined_bytes.load(Ordering::Relaxed) - declined_before;
        // With an error, the reason is another one than room.
        let let_go = if self.wish.lets_go && self.errors.lock().is_empty() { declined } else { 0 };
        let is_whole = self.done_bytes.load(Ordering::Relaxed) + let_go >= self.orders.total_bytes();
        if is_whole { HoldState::Complete } else { HoldState::Incomplete }
    }

    async fn go_through(self: &Arc<Self>, cluster: &Arc<Cluster>, bytes_per_second: Option<u64>) {
        let started = tokio::time::Instant::now();
        let mut issued_bytes = 0u64;
        let orders = self.orders.clone();
        let paced = futures::stream::iter(orders.iterate()).then(|order| {
            let due = bytes_per_second.map(|rate| started + Duration::from_secs_f64(issued_bytes as f64 / rate as f64));
            issued_bytes += order.bytes(self.block_size);
            async move {
                if let Some(due) = due {
                    tokio::time::sleep_until(due).await;
                }
                order
            }
        });
        let asked = paced.map(|order| async move { self.hold(cluster, order).await });
        asked.buffer_unordered(UNDER_WAY).for_each(|()| async {}).await;
    }

    /// Has all owners compare what they hold. What they drop is fetched afterwards.
    async fn compare(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        let orders = self.orders.clone();
        let asked = futures::stream::iter(orders.iterate()).map(|order| async move {
            let ring = cluster.ring();
            for owner in self.owners(&ring, &order) {
                let command = self.command(&order, true);
                match cluster.peers.command(&ring.member(owner).address, &command).await {
                    Ok(report) => {
                        let corrupt = report.get("corrupt_blocks").and_then(serde_json::Value::as_u64).unwrap_or(0);
                        self.corrupt_blocks.fetch_add(corrupt, Ordering::Relaxed);
                    }
                    Err(error) => self.keep_error(&order, &error),
                }
            }
        });
        asked.buffer_unordered(UNDER_WAY).for_each(|()| async {}).await;
    }

    fn owners(&self, ring: &Ring, order: &HoldOrder) -> Vec<usize> {
        let stripe = order.stripe(self.block_size);
        match self.wish.replicas {
            Some(replicas) => first_active(ring, stripe, replicas as usize),
            None => ring.owners(stripe),
        }
    }

    fn command(&self, order: &HoldOrder, verify: bool) -> PeerCommand {
        let (key, first, count) = ((*order.key).clone(), order.blocks.start, order.blocks.end - order.blocks.start);
        let block_size = self.block_size.bytes();
        match verify {
            true => PeerCommand::Verify { key, first, count, block_size },
            false => PeerCommand::Warm { key, first, count, block_size },
        }
    }

    async fn hold(&self, cluster: &Arc<Cluster>, order: HoldOrder) {
        let mut outcome = Err(Error::new(ErrorKind::Unreachable, "no worker"));
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(PAUSE * attempt).await;
            }
            outcome = self.ask_owners(cluster, &order).await;
            match &outcome {
                // What found no room will find none in a second; what failed may work.
                Ok(said) if said.held_bytes + said.declined_bytes >= order.bytes(self.block_size) => break,
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "an order is tried again"),
            }
        }
        self.note(&order, outcome);
    }

    /// The least that any owner said: the order is done when all hold it.
    async fn ask_owners(&self, cluster: &Arc<Cluster>, order: &HoldOrder) -> Result<Said> {
        let ring = cluster.ring();
        let owners = self.owners(&ring, order);
        if owners.is_empty() {
            return Err(Error::new(ErrorKind::Unreachable, "the cluster has no workers that keep blocks"));
        }
        let mut least: Option<Said> = None;
        for owner in owners {
            let said = self.ask(cluster, ring.member(owner), order).await?;
            let so_far = least.get_or_insert(said);
            if said.held_bytes < so_far.held_bytes {
                *so_far = Said { fetched_bytes: so_far.fetched_bytes, ..said };
            }
        }
        least.ok_or_else(|| Error::new(ErrorKind::Unexpected, "nobody was asked"))
    }

    async fn ask(&self, cluster: &Arc<Cluster>, owner: &Member, order: &HoldOrder) -> Result<Said> {
        let report = cluster.peers.command(&owner.address, &self.command(order, false)).await?;
        let told = |name: &str| report.get(name).and_then(serde_json::Value::as_u64);
        let number = |name: &str| told(name).unwrap_or(0);
        if let Some(bytes) = told("cached_bytes") {
            self.cached_by_worker.lock().insert(owner.id.0.to_string(), bytes);
        }
        if let Some(error) = report.get("error").and_then(serde_json::Value::as_str) {
            return Err(Error::new(ErrorKind::Unexpected, error));
        }
        if let Some(obstacle) = report.get("obstacle").and_then(serde_json::Value::as_str) {
            self.keep_error(order, obstacle);
        }
        Ok(Said {
            held_bytes: number("held_bytes"),
            fetched_bytes: number("fetched_bytes"),
            declined_bytes: number("declined_bytes"),
        })
    }

    fn note(&self, order: &HoldOrder, outcome: Result<Said>) {
        let add = |count: &AtomicU64, amount: u64| {
            count.fetch_add(amount, Ordering::Relaxed);
        };
        match outcome {
            Ok(said) => {
                add(&self.done_bytes, said.held_bytes);
                add(&self.fetched_bytes, said.fetched_bytes);
                add(&self.declined_bytes, said.declined_bytes);
                let is_held = said.held_bytes == order.bytes(self.block_size);
                add(&self.done_files, u64::from(is_held && order.finish()));
            }
            Err(error) => self.keep_error(order, &error),
        }
    }

    fn keep_error(&self, order: &HoldOrder, error: impl std::fmt::Display) {
        let mut errors = self.errors.lock();
        if errors.len() < KEPT_ERRORS {
            errors.push(format!("{}: {error}", String::from_utf8_lossy(&order.key.path)));
        }
    }
}

fn first_active(ring: &Ring, stripe: StripeId, count: usize) -> Vec<usize> {
    let everybody = ring.ranking(stripe, ring.view().members.len()).into_iter();
    let active = everybody.filter(|member| ring.member(*member).state == MemberState::Active);
    active.take(count.max(1)).collect()
}

//! Warm-up: brings given files into the store, skips what is there, and calls itself complete only when every block has
//! been seen in the store afterwards. A block that turned out not to be the origin's is fetched once more (`proof`).
//! Starting it again goes on where it was.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Transfer;
use super::background::Found;
use super::control::{Outcome, Purpose};
use super::disk::{hanging, on_any_disk};
use super::order::OrderedFiles;
use super::progress::{WarmProgress, WarmState};
use super::proof::FETCHES;
use super::source::Source;
use crate::error::{Error, Result};
use crate::store::{Blocks, DISK_HANGS, is_passing};
use crate::sync::{Condvar, Mutex};

/// Errors kept word for word; beyond them only their number is known.
const KEPT_ERRORS: usize = 100;

/// Files whose blocks may be under way at the same time.
const FILES_UNDER_WAY: usize = 1024;

/// A warm-up stops when the store declined this much in a row: it is full.
const DECLINED_IN_A_ROW_BYTES: u64 = 64 << 20;

/// How often a warm-up begins again because a disk took nothing for a moment,
const MOST_AGAIN: usize = 3;
/// and how long it waits each time for room there.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
const LOOK_FOR_ROOM_EVERY: Duration = Duration::from_millis(250);

/// A warm-up gives up after this many failures in a row: the origin is gone, and each file would wait for its retries.
const FAILED_IN_A_ROW: u64 = 100;

/// A warm-up under way, or ended.
#[derive(Debug)]
pub struct WarmJob {
    counts: Counts,
    total_bytes: u64,
    total_files: u64,
    errors: Mutex<Vec<String>>,
    declined_reason: Mutex<&'static str>,
    state: Mutex<WarmState>,
    changed: Condvar,
    cancelled: CancellationToken,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct Counts {
    done_bytes: AtomicU64,
    done_files: AtomicU64,
    origin_bytes: AtomicU64,
    declined_bytes: AtomicU64,
    failed_blocks: AtomicU64,
    declined_in_a_row_bytes: AtomicU64,
    failed_in_a_row: AtomicU64,
}

impl WarmJob {
    fn new(files: &dyn OrderedFiles) -> Arc<Self> {
        Arc::new(WarmJob {
            counts: Counts::default(),
            total_bytes: files.total_bytes(),
            total_files: files.count() as u64,
            errors: Mutex::default(),
            declined_reason: Mutex::new(""),
            state: Mutex::new(WarmState::Fetching),
            changed: Condvar::new(),
            cancelled: CancellationToken::new(),
            ended: CancellationToken::new(),
        })
    }

    /// How far it is; cheap enough to ask several times a second.
    pub fn progress(&self) -> WarmProgress {
        let state = *self.state.lock();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut progress = WarmProgress {
            state,
            done_bytes: read(&self.counts.done_bytes),
            total_bytes: self.total_bytes,
            done_files: read(&self.counts.done_files),
            total_files: self.total_files,
            origin_bytes: read(&self.counts.origin_bytes),
            did_not_fit_bytes: read(&self.counts.declined_bytes),
            failed_blocks: read(&self.counts.failed_blocks),
            declined_reason: *self.declined_reason.lock(),
            errors: self.errors.lock().clone(),
            message: String::new(),
        };
        progress.message = progress.sentence();
        progress
    }

    /// Stops fetching; blocks under way still complete.
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Waits for the end.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Blocks this thread until the job has ended or `timeout` is over; true when it has ended.
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

    fn enter(&self, state: WarmState) {
        *self.state.lock() = state;
        if state.is_end() {
            self.ended.cancel();
        }
        self.changed.notify_all();
    }

    /// A fault of ours ended it, and not of the origin or the store.
    fn note_fault(&self) {
        self.counts.failed_blocks.fetch_add(1, Ordering::Relaxed);
        self.errors.lock().push("a fault of Headrace ended the warm-up; its log says more".to_owned());
    }

    /// True when the store did not take everything, for reasons that pass.
    fn was_declined_in_passing(&self) -> bool {
        self.counts.declined_bytes.load(Ordering::Relaxed) > 0 && is_passing(*self.declined_reason.lock())
    }

    /// All files are gone through once more; what is here already counts anew.
    fn begin_again(&self) {
        let counts = &self.counts;
        let anew = [&counts.done_bytes, &counts.done_files, &counts.declined_bytes, &counts.declined_in_a_row_bytes];
        anew.into_iter().for_each(|count| count.store(0, Ordering::Relaxed));
        *self.declined_reason.lock() = "";
    }

    /// The file was dropped: it counts when it has come once more.
    fn take_back(&self, file: &Source) {
        let less = |count: &AtomicU64, amount| {
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_sub(amount)));
        };
        less(&self.counts.done_bytes, file.size());
        less(&self.counts.done_files, 1);
    }

    /// True when going on is of no use: the store is full, or the origin is gone.
    fn is_hopeless(&self) -> bool {
        self.counts.declined_in_a_row_bytes.load(Ordering::Relaxed) >= DECLINED_IN_A_ROW_BYTES
            || self.counts.failed_in_a_row.load(Ordering::Relaxed) >= FAILED_IN_A_ROW
    }

    /// Notes how one block ended; true when it is in.
    fn note(&self, source: &Source, bytes: u64, outcome: &Outcome) -> bool {
        let add = |count: &AtomicU64, amount| {
            count.fetch_add(amount, Ordering::Relaxed);
        };
        let clear = |count: &AtomicU64| count.store(0, Ordering::Relaxed);
        match outcome {
            Outcome::Stored => {
                add(&self.counts.done_bytes, bytes);
                clear(&self.counts.declined_in_a_row_bytes);
                clear(&self.counts.failed_in_a_row);
                return true;
            }
            Outcome::Declined(reason) => {
                *self.declined_reason.lock() = reason;
                add(&self.counts.declined_bytes, bytes);
                add(&self.counts.declined_in_a_row_bytes, bytes);
                clear(&self.counts.failed_in_a_row);
            }
            Outcome::Failed(error) => {
                add(&self.counts.failed_blocks, 1);
                add(&self.counts.failed_in_a_row, 1);
                let mut errors = self.errors.lock();
                if errors.len() < KEPT_ERRORS {
                    errors.push(format!("{}: {error}", source.path()));
                }
            }
        }
        false
    }
}

impl Transfer {
    /// Brings `files` into the store, in their order, at the speed of the link. `Config` when there is no cache.
    pub fn warm(self: &Arc<Self>, files: Arc<dyn OrderedFiles>) -> Result<Arc<WarmJob>> {
        let Some(store) = self.blocks.clone() else {
            return Err(Error::config("there is no cache to warm").with_hint("name a cache folder: --cache PATH:QUOTA"));
        };
        let job = WarmJob::new(&*files);
        let (transfer, running) = (self.clone(), job.clone());
        let run = async move {
            tokio::select! {
                () = transfer.closing.cancelled() => running.cancel(),
                () = running.cancelled.cancelled() => {}
                ended = AssertUnwindSafe(transfer.warm_until_right(&running, &*files)).catch_unwind() => {
                    // Whoever waits for the job must hear of its end.
                    ended.unwrap_or_else(|_| running.note_fault());
                }
            }
            transfer.conclude(&running, store, files).await;
        };
        drop(self.tasks.spawn_on(run, &self.runtime));
        Ok(job)
    }

    /// What is wrong as often as it is fetched is asked for once more: the refusal tells why.
    async fn warm_until_right(self: &Arc<Self>, job: &Arc<WarmJob>, files: &dyn OrderedFiles) {
        self.offer_again().await;
        self.warm_all(job, files).await;
        for _ in 0..MOST_AGAIN {
            if !job.was_declined_in_passing() || !self.has_room_soon().await {
                break;
            }
            self.offer_again().await;
            job.begin_again();
            self.warm_all(job, files).await;
        }
        for _ in 0..FETCHES {
            let again = self.found_wrong(files).await;
            if again.is_empty() {
                return;
            }
            again.iter().for_each(|file| job.take_back(file));
            self.warm_all(job, &again).await;
        }
    }

    /// Waits a moment for a disk that took nothing; true when it would again.
    async fn has_room_soon(&self) -> bool {
        let until = Instant::now() + ROOM_PATIENCE;
        loop {
            if self.room_now().await.is_some() {
                return true;
            }
            if Instant::now() > until {
                return false;
            }
            tokio::time::sleep(LOOK_FOR_ROOM_EVERY).await;
        }
    }

    async fn warm_all(self: &Arc<Self>, job: &Arc<WarmJob>, files: &dyn OrderedFiles) {
        let under_way = Arc::new(Semaphore::new(FILES_UNDER_WAY));
        let watchers = TaskTracker::new();
        for position in 0..files.count() {
            if job.is_hopeless() {
                break;
            }
            let Ok(permit) = under_way.clone().acquire_owned().await else { break };
            let Some(source) = files.get(position) else { continue };
            let (coming, blocks) = mpsc::unbounded_channel();
            watchers.spawn_on(watch_file(job.clone(), source.clone(), blocks, permit), &self.runtime);
            self.warm_file(job, &source, coming).await;
            tokio::task::consume_budget().await;
        }
        watchers.close();
        watchers.wait().await;
    }

    async fn warm_file(self: &Arc<Self>, job: &WarmJob, source: &Source, coming: mpsc::UnboundedSender<Coming>) {
        self.fetch_missing(source, 0..u32::MAX, Purpose::Warm, |found| {
            match found {
                Found::Here { bytes } => drop(job.note(source, bytes, &Outcome::Stored)),
                Found::Coming { bytes, outcome, ours } => {
                    job.counts.origin_bytes.fetch_add(if ours { bytes } else { 0 }, Ordering::Relaxed);
                    // The watcher lives until this sender is dropped.
                    drop(coming.send((bytes, outcome)));
                }
            }
            !job.is_hopeless()
        })
        .await;
    }

    /// Looks for every block in the store and says how the job ended.
    async fn conclude(&self, job: &Arc<WarmJob>, store: Arc<dyn Blocks>, files: Arc<dyn OrderedFiles>) {
        if job.cancelled.is_cancelled() {
            return job.enter(WarmState::Cancelled);
        }
        job.enter(WarmState::Verifying);
        let (verifying, closing, block_size) = (job.clone(), self.closing.clone(), self.block_size);
        let looked_at = store.clone();
        let verify = move || {
            let mut seen = (0, 0);
            for source in (0..files.count()).filter_map(|position| files.get(position)) {
                if verifying.cancelled.is_cancelled() || closing.is_cancelled() {
                    break;
                }
                let indices = 0..block_size.count(source.size());
                let present = indices.filter(|index| looked_at.get(&source.id(), *index, source.size()).is_some());
                let bytes: u64 = present.map(|index| block_size.range(index, source.size()).length()).sum();
                seen = (seen.0 + bytes, seen.1 + u64::from(bytes == source.size()));
            }
            seen
        };
        let seen = on_any_disk(&self.runtime, &*store, verify).await;
        let (bytes, whole_files) = match seen {
            Some(Ok(seen)) => seen,
            Some(Err(_)) => return job.enter(WarmState::Cancelled),
            None => (0, 0),
        };
        if seen.is_none() || bytes < job.total_bytes && store.hanging().is_some() {
            job.errors.lock().push(hanging(&*store).sentence());
            *job.declined_reason.lock() = DISK_HANGS;
        }
        job.counts.done_bytes.store(bytes, Ordering::Relaxed);
        job.counts.done_files.store(whole_files, Ordering::Relaxed);
        job.enter(match () {
            () if job.cancelled.is_cancelled() || self.closing.is_cancelled() => WarmState::Cancelled,
            () if bytes == job.total_bytes && whole_files == job.total_files => WarmState::Complete,
            () => WarmState::Incomplete,
        });
    }
}

/// A block on its way: its length, and how it will end.
type Coming = (u64, oneshot::Receiver<Outcome>);

/// Notes how the blocks of one file end.
async fn watch_file(
    job: Arc<WarmJob>,
    source: Source,
    mut blocks: mpsc::UnboundedReceiver<Coming>,
    _permit: OwnedSemaphorePermit,
) {
    let mut whole = true;
    while let Some((bytes, outcome)) = blocks.recv().await {
        let outcome = outcome.await.unwrap_or_else(|_| Outcome::Failed(super::fetch::closing_error()));
        whole &= job.note(&source, bytes, &outcome);
    }
    if whole {
        job.counts.done_files.fetch_add(1, Ordering::Relaxed);
    }
}

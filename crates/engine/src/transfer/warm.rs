//! Warm-up: brings given files into the store, skips what is there, and calls itself complete only when every block has
//! been seen in the store afterwards. A block that turned out not to be the origin's is fetched once more (`proof`).
//! Starting it again goes on where it was.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::background::{Background, Found};
use super::context::Context;
use super::control::{Outcome, Purpose};
use super::disk::{hanging, on_any_disk};
use super::faults::closing_error;
use super::order::OrderedFiles;
use super::progress::WarmState;
use super::proof::{Comparisons, FETCHES};
use super::settle::Settler;
use super::source::Source;
use super::warm_job::WarmJob;
use crate::error::{Error, Result};
use crate::store::Blocks;

/// Files whose blocks may be under way at the same time.
const FILES_UNDER_WAY: usize = 1024;

/// How often a warm-up begins again because a disk took nothing for a moment,
const MOST_AGAIN: usize = 3;
/// and how long it waits each time for room there.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
const LOOK_FOR_ROOM_EVERY: Duration = Duration::from_millis(250);

/// Brings files in for warm-ups.
pub(super) struct Warmer {
    pub(super) context: Arc<Context>,
    pub(super) background: Arc<Background>,
    pub(super) settler: Arc<Settler>,
    pub(super) comparisons: Arc<Comparisons>,
}

impl Warmer {
    /// Brings `files` into the store, in their order, at the speed of the link. `Config` when there is no cache.
    pub(super) fn warm(self: &Arc<Self>, files: Arc<dyn OrderedFiles>) -> Result<Arc<WarmJob>> {
        let Some(store) = self.context.blocks.clone() else {
            return Err(Error::config("there is no cache to warm").with_hint("name a cache folder: --cache PATH:QUOTA"));
        };
        let job = WarmJob::new(&*files);
        let (warmer, running) = (self.clone(), job.clone());
        let run = async move {
            tokio::select! {
                () = warmer.context.closing.cancelled() => running.cancel(),
                () = running.cancelled.cancelled() => {}
                ended = AssertUnwindSafe(warmer.warm_until_right(&running, &*files)).catch_unwind() => {
                    // Whoever waits for the job must hear of its end.
                    ended.unwrap_or_else(|_| running.note_fault());
                }
            }
            warmer.conclude(&running, store, files).await;
        };
        self.context.spawn(run);
        Ok(job)
    }

    /// What is wrong as often as it is fetched is asked for once more: the refusal tells why.
    async fn warm_until_right(&self, job: &Arc<WarmJob>, files: &dyn OrderedFiles) {
        self.settler.offer_again().await;
        self.warm_all(job, files).await;
        for _ in 0..MOST_AGAIN {
            if !job.was_declined_in_passing() || !self.has_room_soon().await {
                break;
            }
            self.settler.offer_again().await;
            job.begin_again();
            self.warm_all(job, files).await;
        }
        for _ in 0..FETCHES {
            let again = self.comparisons.found_wrong(files).await;
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
            if self.settler.room_now().await.is_some() {
                return true;
            }
            if Instant::now() > until {
                return false;
            }
            tokio::time::sleep(LOOK_FOR_ROOM_EVERY).await;
        }
    }

    async fn warm_all(&self, job: &Arc<WarmJob>, files: &dyn OrderedFiles) {
        let under_way = Arc::new(Semaphore::new(FILES_UNDER_WAY));
        let watchers = TaskTracker::new();
        for position in 0..files.count() {
            if job.is_hopeless() {
                break;
            }
            let Ok(permit) = under_way.clone().acquire_owned().await else { break };
            let Some(source) = files.get(position) else { continue };
            let (coming, blocks) = mpsc::unbounded_channel();
            watchers.spawn_on(watch_file(job.clone(), source.clone(), blocks, permit), &self.context.runtime);
            self.warm_file(job, &source, coming).await;
            tokio::task::consume_budget().await;
        }
        watchers.close();
        watchers.wait().await;
    }

    async fn warm_file(&self, job: &WarmJob, source: &Source, coming: mpsc::UnboundedSender<Coming>) {
        self.background
            .fetch_missing(source, 0..u32::MAX, Purpose::Warm, |found| {
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
        let (verifying, closing, block_size) = (job.clone(), self.context.closing.clone(), self.context.block_size);
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
        let seen = on_any_disk(&self.context.runtime, &*store, verify).await;
        let (bytes, whole_files) = match seen {
            Some(Ok(seen)) => seen,
            Some(Err(_)) => return job.enter(WarmState::Cancelled),
            None => (0, 0),
        };
        if seen.is_none() || bytes < job.total_bytes && store.hanging().is_some() {
            job.note_hanging(hanging(&*store).sentence());
        }
        job.counts.done_bytes.store(bytes, Ordering::Relaxed);
        job.counts.done_files.store(whole_files, Ordering::Relaxed);
        job.enter(match () {
            () if job.cancelled.is_cancelled() || self.context.closing.is_cancelled() => WarmState::Cancelled,
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
        let outcome = outcome.await.unwrap_or_else(|_| Outcome::Failed(closing_error()));
        whole &= job.note(&source, bytes, &outcome);
    }
    if whole {
        job.counts.done_files.fetch_add(1, Ordering::Relaxed);
    }
}

//! One warm-up: what it has brought in so far, what went wrong, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::control::Outcome;
use super::order::OrderedFiles;
use super::progress::{WarmProgress, WarmState};
use super::source::Source;
use crate::store::{DISK_HANGS, is_passing};
use crate::sync::{Condvar, Mutex};

/// Errors kept word for word; beyond them only their number is known.
const KEPT_ERRORS: usize = 100;

/// A warm-up stops when the store declined this much in a row: it is full.
const DECLINED_IN_A_ROW_BYTES: u64 = 64 << 20;

/// A warm-up gives up after this many failures in a row: the origin is gone, and each file would wait for its retries.
const FAILED_IN_A_ROW: u64 = 100;

/// A warm-up under way, or ended.
#[derive(Debug)]
pub struct WarmJob {
    pub(super) counts: Counts,
    pub(super) total_bytes: u64,
    pub(super) total_files: u64,
    errors: Mutex<Vec<String>>,
    declined_reason: Mutex<&'static str>,
    state: Mutex<WarmState>,
    changed: Condvar,
    pub(super) cancelled: CancellationToken,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) done_bytes: AtomicU64,
    pub(super) done_files: AtomicU64,
    pub(super) origin_bytes: AtomicU64,
    declined_bytes: AtomicU64,
    failed_blocks: AtomicU64,
    declined_in_a_row_bytes: AtomicU64,
    failed_in_a_row: AtomicU64,
}

impl WarmJob {
    pub(super) fn new(files: &dyn OrderedFiles) -> Arc<Self> {
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

    pub(super) fn enter(&self, state: WarmState) {
        *self.state.lock() = state;
        if state.is_end() {
            self.ended.cancel();
        }
        self.changed.notify_all();
    }

    /// A disk hung over the last look.
    pub(super) fn note_hanging(&self, sentence: String) {
        self.errors.lock().push(sentence);
        *self.declined_reason.lock() = DISK_HANGS;
    }

    /// A fault of ours ended it, and not of the origin or the store.
    pub(super) fn note_fault(&self) {
        self.counts.failed_blocks.fetch_add(1, Ordering::Relaxed);
        self.errors.lock().push("a fault of Headrace ended the warm-up; its log says more".to_owned());
    }

    /// True when the store did not take everything, for reasons that pass.
    pub(super) fn was_declined_in_passing(&self) -> bool {
        self.counts.declined_bytes.load(Ordering::Relaxed) > 0 && is_passing(*self.declined_reason.lock())
    }

    /// All files are gone through once more; what is here already counts anew.
    pub(super) fn begin_again(&self) {
        let counts = &self.counts;
        let anew = [&counts.done_bytes, &counts.done_files, &counts.declined_bytes, &counts.declined_in_a_row_bytes];
        anew.into_iter().for_each(|count| count.store(0, Ordering::Relaxed));
        *self.declined_reason.lock() = "";
    }

    /// The file was dropped: it counts when it has come once more.
    pub(super) fn take_back(&self, file: &Source) {
        let less = |count: &AtomicU64, amount| {
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_sub(amount)));
        };
        less(&self.counts.done_bytes, file.size());
        less(&self.counts.done_files, 1);
    }

    /// True when going on is of no use: the store is full, or the origin is gone.
    pub(super) fn is_hopeless(&self) -> bool {
        self.counts.declined_in_a_row_bytes.load(Ordering::Relaxed) >= DECLINED_IN_A_ROW_BYTES
            || self.counts.failed_in_a_row.load(Ordering::Relaxed) >= FAILED_IN_A_ROW
    }

    /// Notes how one block ended; true when it is in.
    pub(super) fn note(&self, source: &Source, bytes: u64, outcome: &Outcome) -> bool {
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

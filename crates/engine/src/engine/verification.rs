//! Reading cached blocks back and comparing their checksums, as a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::job::{Job, JobState, Progress};
use crate::ids::FileId;
use crate::store::Store;
use crate::sync::{Condvar, Mutex};

/// A verification under way; see `start`.
#[derive(Debug)]
pub struct Verification {
    done_files: AtomicU64,
    done_bytes: AtomicU64,
    corrupt_blocks: AtomicU64,
    total_files: u64,
    total_bytes: u64,
    cancelled: AtomicBool,
    ended: Mutex<bool>,
    end: Condvar,
}

/// Starts checking `files` (id and size) on a thread of its own.
pub fn start(store: Arc<Store>, files: Vec<(FileId, u64)>) -> std::io::Result<Arc<Verification>> {
    let verification = Arc::new(Verification {
        done_files: AtomicU64::new(0),
        done_bytes: AtomicU64::new(0),
        corrupt_blocks: AtomicU64::new(0),
        total_files: files.len() as u64,
        total_bytes: files.iter().map(|file| store.cached_bytes(&file.0).min(file.1)).sum(),
        cancelled: AtomicBool::new(false),
        ended: Mutex::new(false),
        end: Condvar::new(),
    });
    let shared = verification.clone();
    std::thread::Builder::new().name("headrace-verify".into()).spawn(move || shared.run(&store, &files))?;
    Ok(verification)
}

impl Verification {
    fn run(&self, store: &Store, files: &[(FileId, u64)]) {
        for (id, size) in files {
            if self.cancelled.load(Ordering::Relaxed) {
                break;
            }
            let bytes = store.cached_bytes(id).min(*size);
            let (_, corrupt) = store.verify(id);
            self.corrupt_blocks.fetch_add(corrupt, Ordering::Relaxed);
            self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.done_files.fetch_add(1, Ordering::Relaxed);
        }
        *self.ended.lock() = true;
        self.end.notify_all();
    }

    fn state(&self) -> JobState {
        if !*self.ended.lock() {
            JobState::Running
        } else if self.done_files.load(Ordering::Relaxed) < self.total_files {
            JobState::Cancelled
        } else if self.corrupt_blocks.load(Ordering::Relaxed) > 0 {
            JobState::Failed
        } else {
            JobState::Done
        }
    }
}

impl Job for Verification {
    fn progress(&self) -> Progress {
        let corrupt = self.corrupt_blocks.load(Ordering::Relaxed);
        let sentence = match corrupt {
            0 => String::new(),
            _ => format!("{corrupt} corrupt blocks were dropped; they are fetched again when next read"),
        };
        Progress {
            state: self.state(),
            done_bytes: self.done_bytes.load(Ordering::Relaxed),
            total_bytes: self.total_bytes,
            done_files: self.done_files.load(Ordering::Relaxed),
            total_files: self.total_files,
            origin_bytes: 0,
            did_not_fit_bytes: 0,
            errors: if corrupt > 0 { vec![sentence.clone()] } else { Vec::new() },
            message: sentence,
        }
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn wait(&self, timeout: Duration) -> bool {
        let mut ended = self.ended.lock();
        if !*ended {
            self.end.wait_for(&mut ended, timeout);
        }
        *ended
    }
}

//! Reading cached blocks back and comparing their checksums, and whole files with what their origins say, as a job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::job::{Job, JobState, Progress};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::FileId;
use crate::store::Store;
use crate::sync::{Condvar, Mutex};
use crate::transfer::{OrderedFiles, Source, Transfer, on_disks, unless_disks_hang};

use tokio::runtime::Handle;

/// A verification under way; see `start`.
#[derive(Debug)]
pub struct Verification {
    done_files: AtomicU64,
    done_bytes: AtomicU64,
    corrupt_blocks: AtomicU64,
    /// What differs from the origin, or could not be compared with it.
    faults: Mutex<Vec<String>>,
    differing_files: AtomicU64,
    /// What is out of reach: a disk that hangs, and what to do about it.
    obstacle: Mutex<Option<String>>,
    total_files: u64,
    /// What is cached of them; 0 until that was counted.
    total_bytes: AtomicU64,
    cancelled: AtomicBool,
    ended: Mutex<bool>,
    end: Condvar,
}

/// So many files are named that differ from their origin.
const MOST_FAULTS: usize = 100;

/// What a verification works with.
pub struct Tools {
    pub store: Arc<Store>,
    pub transfer: Arc<Transfer>,
    pub runtime: Handle,
}

impl Tools {
    /// How many blocks of the file do not match their checksums; `Timeout` when a disk hangs over that.
    async fn corrupt_blocks(&self, file: FileId) -> Result<u64> {
        let store = self.store.clone();
        let verify = move || {
            // It would wait for a disk that hangs already.
            store.within_reach([file])?;
            Ok(store.verify(&file).1)
        };
        on_disks(&self.runtime, &*self.store, verify).await?
    }
}

/// Starts checking `files` on a thread of its own.
pub fn start(tools: Tools, files: Arc<dyn OrderedFiles>) -> std::io::Result<Arc<Verification>> {
    let verification = Arc::new(Verification::of(files.count() as u64));
    let shared = verification.clone();
    std::thread::Builder::new().name("headrace-verify".into()).spawn(move || shared.run(&tools, files.as_ref()))?;
    Ok(verification)
}

impl Verification {
    fn of(total_files: u64) -> Self {
        Verification {
            done_files: AtomicU64::new(0),
            done_bytes: AtomicU64::new(0),
            corrupt_blocks: AtomicU64::new(0),
            faults: Mutex::default(),
            differing_files: AtomicU64::new(0),
            obstacle: Mutex::default(),
            total_files,
            total_bytes: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            ended: Mutex::new(false),
            end: Condvar::new(),
        }
    }

    fn run(&self, tools: &Tools, files: &dyn OrderedFiles) {
        self.count(tools, files);
        for position in 0..files.count() {
            if self.cancelled.load(Ordering::Relaxed) {
                break;
            }
            let verified = files.get(position).map_or(Ok(()), |source| self.verify(tools, &source));
            match verified {
                Ok(()) => drop(self.done_files.fetch_add(1, Ordering::Relaxed)),
                Err(error) => *self.obstacle.lock() = Some(error.sentence()),
            }
        }
        self.finish();
    }

    fn finish(&self) {
        if self.done_files.load(Ordering::Relaxed) == self.total_files {
            // What came into the cache or left it since it was counted is nothing that was left out.
            self.total_bytes.store(self.done_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        *self.ended.lock() = true;
        self.end.notify_all();
    }

    /// A look-up in the store for each file: nobody waits for that before the job has a number.
    fn count(&self, tools: &Tools, files: &dyn OrderedFiles) {
        let positions = (0..files.count()).take_while(|_| !self.cancelled.load(Ordering::Relaxed));
        let sources = positions.filter_map(|position| files.get(position));
        let cached = sources.map(|source| tools.store.cached_bytes(&source.id()).min(source.size()));
        self.total_bytes.store(cached.sum(), Ordering::Relaxed);
    }

    /// `Timeout` when the file is out of reach: its disk hangs.
    fn verify(&self, tools: &Tools, source: &Source) -> Result<()> {
        let id = source.id();
        let bytes = tools.store.cached_bytes(&id).min(source.size());
        let corrupt = tools.runtime.block_on(tools.corrupt_blocks(id))?;
        self.corrupt_blocks.fetch_add(corrupt, Ordering::Relaxed);
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        let comparing = unless_disks_hang(&*tools.store, tools.transfer.compare(source));
        if let Err(error) = tools.runtime.block_on(comparing)? {
            self.note_fault(source, &error);
        }
        Ok(())
    }

    fn note_fault(&self, source: &Source, error: &Error) {
        if error.kind() == ErrorKind::Corrupt {
            self.differing_files.fetch_add(1, Ordering::Relaxed);
        }
        let mut faults = self.faults.lock();
        if faults.len() < MOST_FAULTS {
            faults.push(format!("{}: {error}", source.path()));
        }
    }

    fn is_bad(&self) -> bool {
        self.corrupt_blocks.load(Ordering::Relaxed) > 0 || !self.faults.lock().is_empty()
    }

    /// What was wrong, in one sentence; empty when nothing was.
    fn sentence(&self) -> String {
        let (corrupt, differing) =
            (self.corrupt_blocks.load(Ordering::Relaxed), self.differing_files.load(Ordering::Relaxed));
        let mut parts = Vec::new();
        let out_of_reach = self.total_files.saturating_sub(self.done_files.load(Ordering::Relaxed));
        if self.obstacle.lock().is_some() {
            parts.push(format!("{out_of_reach} files are out of reach: a cache disk does not answer"));
        }
        if corrupt > 0 {
            parts.push(format!("{corrupt} corrupt blocks were dropped; they are fetched again when next read"));
        }
        if differing > 0 {
            parts.push(format!("{differing} files differed from their checksum at the origin and were dropped"));
        }
        parts.join("; ")
    }

    fn state(&self) -> JobState {
        if !*self.ended.lock() {
            JobState::Running
        } else if self.obstacle.lock().is_some() {
            JobState::Failed
        } else if self.done_files.load(Ordering::Relaxed) < self.total_files {
            JobState::Cancelled
        } else if self.is_bad() {
            JobState::Failed
        } else {
            JobState::Done
        }
    }
}

impl Job for Verification {
    fn progress(&self) -> Progress {
        let sentence = self.sentence();
        let mut errors = self.faults.lock().clone();
        if self.corrupt_blocks.load(Ordering::Relaxed) > 0 {
            errors.push(sentence.clone());
        }
        errors.extend(self.obstacle.lock().clone());
        Progress {
            state: self.state(),
            done_bytes: self.done_bytes.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            done_files: self.done_files.load(Ordering::Relaxed),
            total_files: self.total_files,
            origin_bytes: 0,
            did_not_fit_bytes: 0,
            errors,
            message: sentence,
            cached_by_worker: BTreeMap::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Counted: 10 bytes of 2 files.
    fn ended(done_files: u64, done_bytes: u64) -> Progress {
        let verification = Verification::of(2);
        verification.total_bytes.store(10, Ordering::Relaxed);
        verification.done_files.store(done_files, Ordering::Relaxed);
        verification.done_bytes.store(done_bytes, Ordering::Relaxed);
        verification.finish();
        verification.progress()
    }

    #[test]
    fn what_the_cache_gave_up_since_it_was_counted_is_not_missing() {
        for done_bytes in [0, 8, 12] {
            let progress = ended(2, done_bytes);
            assert!(progress.state == JobState::Done && progress.total_bytes == done_bytes, "{progress:?}");
        }
    }

    #[test]
    fn what_was_not_looked_at_is_missing() {
        let progress = ended(1, 5);
        assert!(progress.state == JobState::Cancelled && progress.total_bytes == 10, "{progress:?}");
    }
}

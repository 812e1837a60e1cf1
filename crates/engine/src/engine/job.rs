//! Long work that a caller starts, watches and may cancel.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// Ended jobs remembered for a late look.
const MAX_JOBS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    Running,
    /// Everything asked for was done and found right.
    Done,
    /// It ended, and not everything is right: see `message` and `errors`.
    Failed,
    Cancelled,
}

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub state: JobState,
    pub done_bytes: u64,
    pub total_bytes: u64,
    pub done_files: u64,
    pub total_files: u64,
    /// Bytes that had to come from an origin.
    pub origin_bytes: u64,
    /// Bytes that found no room in the cache.
    pub did_not_fit_bytes: u64,
    /// A bounded list of sentences for a person, one a fault.
    pub errors: Vec<String>,
    /// One sentence for a person, once the job has ended.
    pub message: String,
    /// Of a load: what each worker had cached in all when it was asked last, by its id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cached_by_worker: BTreeMap<String, u64>,
}

/// A running or ended piece of work.
pub trait Job: Send + Sync {
    fn progress(&self) -> Progress;

    fn cancel(&self);

    /// True when the job has ended within `timeout`.
    fn wait(&self, timeout: Duration) -> bool;
}

/// Jobs by number, so that attached processes can name them.
#[derive(Default)]
pub struct Jobs {
    next: AtomicU64,
    jobs: Mutex<HashMap<u64, Arc<dyn Job>>>,
}

impl Jobs {
    pub fn add(&self, job: Arc<dyn Job>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut jobs = self.jobs.lock();
        jobs.insert(number, job);
        if jobs.len() > MAX_JOBS {
            let ended = jobs.iter().filter(|(_, job)| job.progress().state != JobState::Running);
            if let Some(oldest) = ended.map(|(number, _)| *number).min() {
                jobs.remove(&oldest);
            }
        }
        number
    }

    pub fn get(&self, number: u64) -> Result<Arc<dyn Job>> {
        let job = self.jobs.lock().get(&number).cloned();
        job.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no job {number}")))
    }

    pub fn cancel_all(&self) {
        self.jobs.lock().values().for_each(|job| job.cancel());
    }
}

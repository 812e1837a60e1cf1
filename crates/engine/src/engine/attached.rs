//! A process beside the owner: names from the mapped snapshot, bytes through the local socket or leased files.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::job::{Job, JobState, Progress};
use super::names;
use super::verb::Verb;
use crate::error::{Error, ErrorKind, Result};
use crate::serve::{Client, ReadItem};
use crate::snapshot::Snapshot;
use crate::sync::Mutex;

/// How long a look at the owner's current snapshot is believed.
const SNAPSHOT_BELIEF: Duration = Duration::from_secs(2);
/// Files from this size on are worth a descriptor of their own; smaller ones come inline, in one round trip.
const LEASE_FROM_BYTES: u64 = 1 << 20;
/// Most bytes asked for in one message.
const MAX_PIECE_BYTES: usize = 8 << 20;

/// An attached engine. Safe to share between threads.
#[derive(Debug)]
pub struct Attached {
    client: Arc<Client>,
    current: Mutex<(Snapshot, std::path::PathBuf, Instant)>,
}

impl Attached {
    /// Attaches to the owner of `state_directory`.
    pub fn connect(state_directory: &Path) -> Result<Self> {
        let (client, welcome) = Client::connect(state_directory)?;
        let snapshot = Snapshot::open(&welcome.snapshot)?;
        let current = Mutex::new((snapshot, welcome.snapshot, Instant::now()));
        Ok(Attached { client: Arc::new(client), current })
    }

    /// The owner's current snapshot, at most two seconds old.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut current = self.current.lock();
        if current.2.elapsed() > SNAPSHOT_BELIEF {
            let path = self.client.welcome()?.snapshot;
            if path != current.1 {
                current.0 = Snapshot::open(&path)?;
                current.1 = path;
            }
            current.2 = Instant::now();
        }
        Ok(current.0.clone())
    }

    /// Forgets how fresh the snapshot is, so that the next look asks the owner.
    fn distrust_snapshot(&self) {
        let mut current = self.current.lock();
        current.2 = Instant::now().checked_sub(SNAPSHOT_BELIEF * 2).unwrap_or(current.2);
    }

    /// Fills `buffer` from `offset` of a file of `size` bytes.
    pub fn read(&self, inode: u64, size: u64, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let wanted = (size.saturating_sub(offset)).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..wanted];
        if size >= LEASE_FROM_BYTES
            && let Some(file) = self.client.lease(inode)?
        {
            return file.read_at(buffer, offset);
        }
        let mut done = 0;
        for piece in buffer.chunks_mut(MAX_PIECE_BYTES) {
            let item = ReadItem { inode, offset: offset + done as u64, length: piece.len() as u32 };
            done += self.client.read_many(&[item], &mut [piece])?[0];
        }
        Ok(done)
    }

    /// Reads many pieces, each at most `MAX_PIECE_BYTES`, in one message.
    pub fn read_batch(&self, items: &[ReadItem], buffers: &mut [&mut [u8]]) -> Result<Vec<usize>> {
        self.client.read_many(items, buffers)
    }

    /// True when a read of that size is best done in a batch.
    pub fn fits_batch(size: u64, length: usize) -> bool {
        size < LEASE_FROM_BYTES && length <= MAX_PIECE_BYTES
    }

    pub fn prefetch(&self, paths: &[&[u8]]) -> Result<()> {
        self.client.prefetch(&self.inodes(paths)?)
    }

    /// Starts a job in the owner, for the files at and below `paths`.
    pub fn start(&self, paths: &[&[u8]], verb: impl FnOnce(Vec<u64>) -> Verb) -> Result<Arc<dyn Job>> {
        let report = self.ask(verb(self.inodes(paths)?))?;
        let number = report["job"].as_u64().ok_or_else(misunderstood)?;
        Ok(Arc::new(RemoteJob { client: self.client.clone(), number, last: Mutex::new(None) }))
    }

    pub fn evict(&self, paths: &[&[u8]]) -> Result<u64> {
        self.ask(Verb::Evict { inodes: self.inodes(paths)? })?.as_u64().ok_or_else(misunderstood)
    }

    /// Carries out a verb that needs no names.
    pub fn ask(&self, verb: Verb) -> Result<Value> {
        if verb == Verb::Refresh {
            self.distrust_snapshot();
        }
        let verb = serde_json::to_value(verb).map_err(|error| misunderstood().with_source(error))?;
        self.client.control(&verb)
    }

    fn inodes(&self, paths: &[&[u8]]) -> Result<Vec<u64>> {
        let snapshot = self.snapshot()?;
        paths.iter().map(|path| names::find(&snapshot, path).map(|node| node.inode)).collect()
    }
}

/// A job that runs in the owner.
struct RemoteJob {
    client: Arc<Client>,
    number: u64,
    last: Mutex<Option<Progress>>,
}

impl RemoteJob {
    fn ask(&self, verb: &Verb) -> Result<Value> {
        self.client.control(&serde_json::to_value(verb).map_err(|error| misunderstood().with_source(error))?)
    }
}

impl Job for RemoteJob {
    fn progress(&self) -> Progress {
        let asked = self.ask(&Verb::Progress { job: self.number });
        let told = asked.and_then(|report| serde_json::from_value(report).map_err(|e| misunderstood().with_source(e)));
        let mut last = self.last.lock();
        let progress = told.unwrap_or_else(|error| lost(last.take(), &error));
        last.insert(progress).clone()
    }

    fn cancel(&self) {
        if let Err(error) = self.ask(&Verb::Cancel { job: self.number }) {
            tracing::warn!(%error, "cannot cancel");
        }
    }

    fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            if self.progress().state != JobState::Running {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

/// What is known of a job whose owner went away.
fn lost(last: Option<Progress>, error: &Error) -> Progress {
    let nothing = Progress {
        state: JobState::Failed,
        done_bytes: 0,
        total_bytes: 0,
        done_files: 0,
        total_files: 0,
        origin_bytes: 0,
        did_not_fit_bytes: 0,
        errors: Vec::new(),
        message: String::new(),
    };
    let mut progress = last.unwrap_or(nothing);
    progress.state = JobState::Failed;
    progress.errors = vec![error.to_string()];
    progress.message = error.to_string();
    progress
}

fn misunderstood() -> Error {
    Error::new(ErrorKind::Unexpected, "the process that owns the cache gave an answer that this one cannot read")
}

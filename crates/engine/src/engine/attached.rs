//! A process beside the owner: names from the mapped snapshot, bytes through the local socket or leased files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::job::{Job, JobState, Progress};
use super::names::{self, Entry};
use super::verb::Verb;
use crate::error::{Error, ErrorKind, Result};
use crate::serve::{Client, Patience, ReadItem, check_interrupt};
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
    client: Client,
    current: Mutex<Current>,
}

/// What was last heard of the owner's snapshot.
#[derive(Debug)]
struct Current {
    snapshot: Snapshot,
    path: PathBuf,
    heard: Instant,
    /// Of the owner that said so.
    generation: u64,
}

impl Attached {
    /// Attaches to the owner of `state_directory`. With `waits`, to the successor of one that has just died.
    pub fn connect(state_directory: &Path, waits: bool) -> Result<Self> {
        let (client, welcome) = Client::connect(state_directory, Patience::default(), waits)?;
        let (snapshot, generation) = (Snapshot::open(&welcome.snapshot)?, client.generation());
        let current = Current { snapshot, path: welcome.snapshot, heard: Instant::now(), generation };
        Ok(Attached { client, current: Mutex::new(current) })
    }

    /// The owner's current snapshot, at most two seconds old, and the owner that it is of.
    pub fn view(&self) -> Result<(Snapshot, u64)> {
        let mut current = self.client.lock(&self.current)?;
        if current.heard.elapsed() > SNAPSHOT_BELIEF || current.generation != self.client.generation() {
            let welcome = self.client.welcome()?;
            if welcome.snapshot != current.path || welcome.generation() != current.generation {
                current.snapshot = Snapshot::open(&welcome.snapshot)?;
            }
            current.generation = welcome.generation();
            current.path = welcome.snapshot;
            current.heard = Instant::now();
        }
        Ok((current.snapshot.clone(), current.generation))
    }

    /// Does something with inodes of a snapshot; again when `act` finds that their owner has gone (`None`), since they may
    /// be other files to the next.
    fn with_view<T>(&self, mut act: impl FnMut(&Snapshot, u64) -> Result<Option<T>>) -> Result<T> {
        loop {
            let (snapshot, generation) = self.view()?;
            if let Some(outcome) = act(&snapshot, generation)? {
                return Ok(outcome);
            }
        }
    }

    /// Forgets how fresh the snapshot is, so that the next look asks the owner.
    fn distrust_snapshot(&self) -> Result<()> {
        let mut current = self.client.lock(&self.current)?;
        current.heard = Instant::now().checked_sub(SNAPSHOT_BELIEF * 2).unwrap_or(current.heard);
        Ok(())
    }

    /// Fills `buffer` from `offset` of the file at `path`.
    pub fn read(&self, path: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.with_view(|snapshot, generation| {
            let node = names::find_file(snapshot, path)?;
            self.read_inode(generation, node.inode, node.size, offset, buffer)
        })
    }

    /// The same of the version that `entry` stands for; `Stale` when neither its owner nor the next one has that.
    pub fn read_version(&self, entry: &Entry, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let generation = self.client.generation();
        if entry.generation == generation
            && let Some(count) = self.read_inode(generation, entry.inode, entry.size, offset, buffer)?
        {
            return Ok(count);
        }
        self.with_view(|snapshot, generation| {
            let node = entry.find_again(snapshot)?;
            self.read_inode(generation, node.inode, node.size, offset, buffer)
        })
    }

    /// `None` when the owner of `generation` has gone.
    fn read_inode(
        &self,
        generation: u64,
        inode: u64,
        size: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<Option<usize>> {
        let wanted = (size.saturating_sub(offset)).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..wanted];
        if size >= LEASE_FROM_BYTES {
            match self.client.lease(generation, inode)? {
                Some(Some(file)) => return self.client.read_leased(&file, buffer, offset).map(Some),
                Some(None) => {}
                None => return Ok(None),
            }
        }
        let mut done = 0;
        for piece in buffer.chunks_mut(MAX_PIECE_BYTES) {
            let item = ReadItem { inode, offset: offset + done as u64, length: piece.len() as u32 };
            let Some(counts) = self.client.read_many(generation, &[item], &mut [piece])? else { return Ok(None) };
            done += counts[0];
        }
        Ok(Some(done))
    }

    /// Reads many ranges into as many buffers: the small ones in one message.
    pub fn read_many(&self, paths: &[&[u8]], offsets: &[u64], buffers: &mut [&mut [u8]]) -> Result<Vec<usize>> {
        self.with_view(|snapshot, generation| {
            let nodes: Vec<_> = paths.iter().map(|path| names::find_file(snapshot, path)).collect::<Result<_>>()?;
            let mut counts = vec![0; paths.len()];
            let (mut numbers, mut items, mut places) = (Vec::new(), Vec::new(), Vec::new());
            for (number, (node, buffer)) in nodes.iter().zip(buffers.iter_mut()).enumerate() {
                let (offset, length) = (offsets[number], buffer.len());
                if Self::fits_batch(node.size, length) {
                    numbers.push(number);
                    items.push(ReadItem { inode: node.inode, offset, length: length as u32 });
                    places.push(&mut **buffer);
                    continue;
                }
                match self.read_inode(generation, node.inode, node.size, offset, buffer)? {
                    Some(count) => counts[number] = count,
                    None => return Ok(None),
                }
            }
            let read = self.client.read_many(generation, &items, &mut places)?;
            Ok(read.map(|read| {
                numbers.into_iter().zip(read).for_each(|(number, count)| counts[number] = count);
                counts
            }))
        })
    }

    /// True when a read of that size is best done in a batch.
    fn fits_batch(size: u64, length: usize) -> bool {
        size < LEASE_FROM_BYTES && length <= MAX_PIECE_BYTES
    }

    pub fn prefetch(&self, paths: &[&[u8]]) -> Result<()> {
        self.with_view(|snapshot, generation| self.client.prefetch(generation, &inodes(snapshot, paths)?))
    }

    /// Starts a job in the owner, for the files at and below `paths`.
    pub fn start(self: &Arc<Self>, paths: &[&[u8]], verb: fn(Vec<u64>) -> Verb) -> Result<Arc<dyn Job>> {
        let paths = paths.iter().map(|path| path.to_vec()).collect();
        let job = RemoteJob { attached: self.clone(), paths, verb, state: Mutex::default() };
        job.begin()?;
        Ok(Arc::new(job))
    }

    pub fn evict(&self, paths: &[&[u8]]) -> Result<u64> {
        self.ask_about(paths, |inodes| Verb::Evict { inodes })?.0.as_u64().ok_or_else(misunderstood)
    }

    /// Carries out a verb about the files at and below `paths`; the answer, and whose it is.
    fn ask_about(&self, paths: &[&[u8]], verb: fn(Vec<u64>) -> Verb) -> Result<(Value, u64)> {
        self.with_view(|snapshot, generation| {
            let answer = self.client.control_in(generation, &encoded(&verb(inodes(snapshot, paths)?))?)?;
            Ok(answer.map(|answer| (answer, generation)))
        })
    }

    /// Carries out a verb that needs no names.
    pub fn ask(&self, verb: Verb) -> Result<Value> {
        if verb == Verb::Refresh {
            self.distrust_snapshot()?;
        }
        self.client.control(&encoded(&verb)?)
    }
}

fn inodes(snapshot: &Snapshot, paths: &[&[u8]]) -> Result<Vec<u64>> {
    paths.iter().map(|path| names::find(snapshot, path).map(|node| node.inode)).collect()
}

/// A job that runs in the owner. One whose owner went away is begun again in the next: what was done is there.
struct RemoteJob {
    attached: Arc<Attached>,
    paths: Vec<Vec<u8>>,
    verb: fn(Vec<u64>) -> Verb,
    state: Mutex<RemoteState>,
}

#[derive(Default)]
struct RemoteState {
    /// The owner that runs it, and its number there.
    place: Option<(u64, u64)>,
    last: Option<Progress>,
    cancelled: bool,
}

impl RemoteJob {
    fn begin(&self) -> Result<(u64, u64)> {
        let paths: Vec<&[u8]> = self.paths.iter().map(Vec::as_slice).collect();
        let (report, generation) = self.attached.ask_about(&paths, self.verb)?;
        let place = (generation, report["job"].as_u64().ok_or_else(misunderstood)?);
        self.state.lock().place = Some(place);
        Ok(place)
    }

    /// What its owner says of it; `None` when it was cancelled and its owner is gone.
    fn ask(&self) -> Result<Option<Progress>> {
        let known = self.state.lock().place;
        let mut place = known.map_or_else(|| self.begin(), Ok)?;
        loop {
            let verb = encoded(&Verb::Progress { job: place.1 })?;
            if let Some(report) = self.attached.client.control_in(place.0, &verb)? {
                return serde_json::from_value(report).map(Some).map_err(|error| misunderstood().with_source(error));
            }
            if self.state.lock().cancelled {
                return Ok(None);
            }
            place = self.begin()?;
        }
    }
}

impl Job for RemoteJob {
    fn progress(&self) -> Progress {
        if let Some(ended) = self.state.lock().last.clone().filter(|last| last.state != JobState::Running) {
            return ended;
        }
        let told = self.ask();
        let mut state = self.state.lock();
        let progress = match told {
            Ok(Some(progress)) => progress,
            Ok(None) => Progress { state: JobState::Cancelled, ..state.last.take().unwrap_or_else(nothing) },
            // Only this look was broken off; the job goes on.
            Err(error) if error.kind() == ErrorKind::Cancelled => {
                return Progress { state: JobState::Running, ..state.last.clone().unwrap_or_else(nothing) };
            }
            Err(error) => lost(state.last.take(), &error),
        };
        state.last.insert(progress).clone()
    }

    fn cancel(&self) {
        let place = {
            let mut state = self.state.lock();
            state.cancelled = true;
            state.place
        };
        let Some((generation, job)) = place else { return };
        let told = encoded(&Verb::Cancel { job }).and_then(|verb| self.attached.client.control_in(generation, &verb));
        if let Err(error) = told {
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
            if left.is_zero() || check_interrupt().is_err() {
                return false;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

/// What is known of a job whose owner went away.
fn lost(last: Option<Progress>, error: &Error) -> Progress {
    let (errors, message) = (vec![error.to_string()], error.to_string());
    Progress { state: JobState::Failed, errors, message, ..last.unwrap_or_else(nothing) }
}

fn nothing() -> Progress {
    Progress {
        state: JobState::Failed,
        done_bytes: 0,
        total_bytes: 0,
        done_files: 0,
        total_files: 0,
        origin_bytes: 0,
        did_not_fit_bytes: 0,
        errors: Vec::new(),
        message: String::new(),
        cached_by_worker: BTreeMap::new(),
    }
}

fn encoded(verb: &Verb) -> Result<Value> {
    serde_json::to_value(verb).map_err(|error| misunderstood().with_source(error))
}

fn misunderstood() -> Error {
    Error::new(ErrorKind::Unexpected, "the process that owns the cache gave an answer that this one cannot read")
}

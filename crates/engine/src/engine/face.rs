//! One face for both roles: what the Python module calls.

use std::path::Path;
use std::sync::Arc;

use super::attached::Attached;
use super::job::Job;
use super::joining::{self, Joined};
use super::names::{self, Entry};
use super::owner::Owner;
use super::verb::Verb;
use crate::config::EngineConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::fuse::{KeptMount, MountHandle, MountOptions};
use crate::snapshot::Snapshot;
use crate::vfs::{FileSystem, ReadReply};

/// Cold reads of one batch under way at the same time.
const BATCH_WINDOW: usize = 64;
/// Most bytes of one file asked for at a time.
const MAX_PIECE_BYTES: usize = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// This process owns the cache.
    Owner,
    /// Another process owns it; this one reads through that.
    Attached,
}

/// A dataset on this machine.
pub enum Engine {
    Owner(Arc<Owner>),
    Attached(Arc<Attached>),
}

impl Engine {
    /// Owns the cache of `config`, or attaches to the process that does, once that is ready to serve.
    pub fn open(config: EngineConfig) -> Result<Self> {
        match joining::take_or_join(&config.state_directory)? {
            Joined::Taken(state) => Owner::open_in(state, config).map(Engine::Owner),
            Joined::Attached(attached) => Ok(Engine::Attached(attached)),
        }
    }

    /// Owns the cache of `config`, or fails with `Busy`.
    pub fn own(config: EngineConfig) -> Result<Self> {
        Owner::open(config).map(Engine::Owner)
    }

    /// Takes the place of a process that died or stepped back, and goes on with its mount.
    pub fn resume(config: EngineConfig, kept: KeptMount, options: MountOptions) -> Result<(Self, Arc<MountHandle>)> {
        Owner::resume(config, kept, options).map(|(owner, mount)| (Engine::Owner(owner), mount))
    }

    /// Attaches to the owner of `state_directory`; `NotFound` when there is none. With `waits`, the successor of an owner
    /// that has just died is waited for.
    pub fn attach(state_directory: &Path, waits: bool) -> Result<Self> {
        Attached::connect(state_directory, waits).map(|attached| Engine::Attached(Arc::new(attached)))
    }

    pub fn role(&self) -> Role {
        match self {
            Engine::Owner(_) => Role::Owner,
            Engine::Attached(_) => Role::Attached,
        }
    }

    /// The current snapshot, and the owner that it is of.
    fn view(&self) -> Result<(Snapshot, u64)> {
        match self {
            Engine::Owner(owner) => Ok((owner.snapshot(), owner.instance())),
            Engine::Attached(attached) => attached.view(),
        }
    }

    pub fn stat(&self, path: &[u8]) -> Result<Entry> {
        let (snapshot, generation) = self.view()?;
        names::find(&snapshot, path).map(|node| names::entry(&snapshot, &node, generation))
    }

    /// Up to `limit` children in name order, those after the name `after`.
    pub fn list(&self, path: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Entry>> {
        let (snapshot, generation) = self.view()?;
        names::list(&snapshot, generation, path, after, limit)
    }

    /// Fills `buffer` from `offset` of the file at `path`; fewer bytes only at its end.
    pub fn read_into(&self, path: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Engine::Attached(attached) => attached.read(path, offset, buffer),
            Engine::Owner(owner) => read_owned(owner, names::find_file(&owner.snapshot(), path)?.inode, offset, buffer),
        }
    }

    /// The same of the version that `entry` stands for, whatever its name stands for by now. `Stale` when it is not
    /// remembered any more.
    pub fn read_version(&self, entry: &Entry, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Engine::Attached(attached) => attached.read_version(entry, offset, buffer),
            Engine::Owner(owner) if entry.generation == owner.instance() => {
                read_owned(owner, entry.inode, offset, buffer)
            }
            Engine::Owner(owner) => read_owned(owner, entry.find_again(&owner.snapshot())?.inode, offset, buffer),
        }
    }

    /// Reads many ranges into as many buffers; the bytes read of each. Misses are fetched side by side; the first error
    /// ends the batch.
    pub fn read_many(&self, paths: &[&[u8]], offsets: &[u64], buffers: &mut [&mut [u8]]) -> Result<Vec<usize>> {
        match self {
            Engine::Owner(owner) => read_many_owned(owner, paths, offsets, buffers),
            Engine::Attached(attached) => attached.read_many(paths, offsets, buffers),
        }
    }

    /// Tells the order in which whole files will be read.
    pub fn prefetch(&self, paths: &[&[u8]]) -> Result<()> {
        match self {
            Engine::Owner(owner) => owner.prefetch(u64::from(std::process::id()), paths),
            Engine::Attached(attached) => attached.prefetch(paths),
        }
    }

    /// Brings every byte at and below `paths` in.
    pub fn warm(&self, paths: &[&[u8]]) -> Result<Arc<dyn Job>> {
        match self {
            Engine::Owner(owner) => owner.warm(paths).map(|started| started.1),
            Engine::Attached(attached) => attached.start(paths, |inodes| Verb::Warm { inodes }),
        }
    }

    /// Reads the cached bytes at and below `paths` back and drops what is wrong.
    pub fn verify(&self, paths: &[&[u8]]) -> Result<Arc<dyn Job>> {
        match self {
            Engine::Owner(owner) => owner.verify(paths).map(|started| started.1),
            Engine::Attached(attached) => attached.start(paths, |inodes| Verb::Verify { inodes }),
        }
    }

    /// Drops the cached bytes at and below `paths`; the bytes given back.
    pub fn evict(&self, paths: &[&[u8]]) -> Result<u64> {
        match self {
            Engine::Owner(owner) => owner.evict(paths),
            Engine::Attached(attached) => attached.evict(paths),
        }
    }

    /// Goes by this view of the cluster; `Unsupported` unless this process owns a member.
    pub fn set_view(&self, view: &serde_json::Value) -> Result<()> {
        self.owner()?.set_view(view)
    }

    /// Moves readers on to the newest snapshot in the state directory; its version.
    pub fn adopt_snapshot(&self) -> Result<u64> {
        self.owner()?.adopt_snapshot()
    }

    /// Files of the current snapshot and their bytes, without a look at each of them; the owner only.
    pub fn totals(&self) -> Result<(u64, u64)> {
        let snapshot = self.owner()?.snapshot();
        Ok((snapshot.files(), snapshot.total_bytes()))
    }

    fn owner(&self) -> Result<&Arc<Owner>> {
        match self {
            Engine::Owner(owner) => Ok(owner),
            Engine::Attached(_) => Err(Error::new(ErrorKind::Unsupported, "only the owner of a cache can do this")),
        }
    }

    /// Takes a new snapshot; JSON of what differs.
    pub fn refresh(&self) -> Result<String> {
        self.verb(Verb::Refresh).map(|report| report.to_string())
    }

    /// Tries once more to put what was written into the origin: of the paths `ours` whatever stands there, while what was
    /// written at the paths `theirs` is given up. How many names were done.
    pub fn sync(&self, ours: Vec<Vec<u8>>, theirs: Vec<Vec<u8>>) -> Result<u64> {
        self.verb(Verb::Sync { ours, theirs }).map(|done| done.as_u64().unwrap_or_default())
    }

    /// JSON of `Status`.
    pub fn status(&self) -> Result<String> {
        self.verb(Verb::Status).map(|report| report.to_string())
    }

    /// All metrics as OpenMetrics text.
    pub fn metrics(&self) -> Result<String> {
        self.verb(Verb::Metrics).map(|report| report.as_str().unwrap_or_default().to_owned())
    }

    /// Mounts the tree; the owner only.
    pub fn mount(&self, mountpoint: &Path, options: MountOptions) -> Result<Arc<MountHandle>> {
        match self {
            Engine::Owner(owner) => owner.mount(mountpoint, options),
            Engine::Attached(_) => Err(Error::new(ErrorKind::Busy, "another process owns this cache and mounts it")
                .with_hint("use that mount (`headrace status`), or give this one a cache folder of its own")),
        }
    }

    /// Ends what this process owns; an attached engine just lets go.
    pub fn close(&self) -> Result<()> {
        match self {
            Engine::Owner(owner) => owner.close(),
            Engine::Attached(_) => Ok(()),
        }
    }

    fn verb(&self, verb: Verb) -> Result<serde_json::Value> {
        match self {
            Engine::Owner(owner) => owner.carry_out(verb),
            Engine::Attached(attached) => attached.ask(verb),
        }
    }
}

/// One range of a batch, with the memory it goes to.
struct Wanted<'a, 'b> {
    inode: u64,
    offset: u64,
    buffer: &'a mut &'b mut [u8],
}

/// Reads piece by piece, so that a large cold read takes its memory from the budget one piece at a time.
fn read_owned(owner: &Owner, inode: u64, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let tree = owner.tree();
    let mut done = 0;
    for piece in buffer.chunks_mut(MAX_PIECE_BYTES) {
        let (from, length) = (offset + done as u64, piece.len());
        let count = match tree.copy_cached(inode, from, piece)? {
            Some(count) => count,
            None => copy_out(&owner.runtime().block_on(tree.clone().read(inode, 0, from, length))?, piece)?,
        };
        done += count;
        if count < length {
            break;
        }
    }
    Ok(done)
}

fn read_many_owned(owner: &Owner, paths: &[&[u8]], offsets: &[u64], buffers: &mut [&mut [u8]]) -> Result<Vec<usize>> {
    let (tree, snapshot) = (owner.tree(), owner.snapshot());
    let mut wanted = Vec::with_capacity(paths.len());
    for ((path, offset), buffer) in paths.iter().zip(offsets).zip(buffers) {
        wanted.push(Wanted { inode: names::find_file(&snapshot, path)?.inode, offset: *offset, buffer });
    }
    let mut counts = vec![0; wanted.len()];
    let mut window = std::collections::VecDeque::new();
    let mut finish = |(number, item, task): (usize, Wanted<'_, '_>, tokio::task::JoinHandle<Result<ReadReply>>)| {
        let reply = owner.runtime().block_on(task).unwrap_or_else(|_| Err(cancelled()))?;
        counts[number] = copy_out(&reply, item.buffer)?;
        Ok(())
    };
    let mut hits = Vec::new();
    for (number, item) in wanted.into_iter().enumerate() {
        let length = item.buffer.len();
        if length > MAX_PIECE_BYTES {
            hits.push((number, read_owned(owner, item.inode, item.offset, item.buffer)?));
            continue;
        }
        if let Some(count) = tree.copy_cached(item.inode, item.offset, item.buffer)? {
            hits.push((number, count));
            continue;
        }
        if window.len() >= BATCH_WINDOW {
            window.pop_front().map_or(Ok(()), &mut finish)?;
        }
        let task = owner.runtime().spawn(tree.clone().read(item.inode, 0, item.offset, length));
        window.push_back((number, item, task));
    }
    window.into_iter().try_for_each(finish)?;
    hits.into_iter().for_each(|(number, count)| counts[number] = count);
    Ok(counts)
}

/// Copies a reply into the caller's memory; the bytes copied.
fn copy_out(reply: &ReadReply, buffer: &mut [u8]) -> Result<usize> {
    use std::os::unix::fs::FileExt;
    let mut done = 0;
    match reply {
        ReadReply::Memory(parts) => {
            for part in parts {
                buffer[done..done + part.len()].copy_from_slice(part);
                done += part.len();
            }
        }
        ReadReply::Files(parts) => {
            for part in parts {
                let target = &mut buffer[done..done + part.length];
                part.file.read_exact_at(target, part.offset).map_err(|error| {
                    Error::new(ErrorKind::Unexpected, "cannot read a cache file").with_source(error)
                })?;
                done += part.length;
            }
        }
    }
    Ok(done)
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the engine is closing")
}

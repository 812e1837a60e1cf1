//! Reads that need nothing but a disk: for callers with threads of their own that may wait for it.

use std::fs::File;
use std::io;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::reply::{Piece, Reply, StoredPart};
use crate::error::Result;
use crate::store::{BlockHandle, DiskWatch};

/// Bytes that lie in cache files, and may not be in memory; with the right to one thread that waits for their disks.
#[derive(Debug)]
pub struct DiskRead {
    parts: Vec<StoredPart>,
    /// Held for as long as a thread may wait.
    _rights: Vec<OwnedSemaphorePermit>,
}

/// The bytes of a read, as far as they can be had without an origin.
pub enum AtHand<T> {
    /// Neither an origin nor a disk is needed.
    Here(T),
    /// They lie on a disk: for a thread that may wait for it.
    OnDisk(DiskRead),
    /// Anything else: they have to be fetched, or as many threads wait for their disk as may.
    Missing,
}

impl<T> AtHand<T> {
    /// The same, with what is here as `change` returns it.
    pub fn try_map<U>(self, change: impl FnOnce(T) -> Result<U>) -> Result<AtHand<U>> {
        Ok(match self {
            AtHand::Here(found) => AtHand::Here(change(found)?),
            AtHand::OnDisk(found) => AtHand::OnDisk(found),
            AtHand::Missing => AtHand::Missing,
        })
    }

    /// What is here.
    pub fn here(self) -> Option<T> {
        match self {
            AtHand::Here(found) => Some(found),
            AtHand::OnDisk(_) | AtHand::Missing => None,
        }
    }
}

/// The disks that a read waits for.
#[derive(Debug, Clone)]
pub struct Disks(Vec<Arc<DiskWatch>>);

impl DiskRead {
    /// `length` bytes of `file` from `offset`, which lie on the disk that is watched.
    pub fn of_file(file: Arc<File>, offset: u64, length: usize, disk: &Arc<DiskWatch>) -> Self {
        let block = BlockHandle::new(file, offset, length as u32, Arc::new(())).on(disk);
        DiskRead { parts: vec![StoredPart { block, offset, length }], _rights: Vec::new() }
    }

    /// The same, and behind it the first `length` bytes of `file`, which is in memory.
    pub fn followed_by(mut self, file: Arc<File>, length: usize) -> Self {
        let block = BlockHandle::new(file, 0, length as u32, Arc::new(()));
        self.parts.push(StoredPart { block, offset: 0, length });
        self
    }

    /// What of `reply` lies in cache files, if all of it does, and as few threads wait for their disks as may.
    pub(super) fn of_reply(reply: Reply) -> Option<Self> {
        let stored = |piece| match piece {
            Piece::Stored(part) => Some(part),
            Piece::Memory(_) => None,
        };
        let parts = reply.pieces.into_iter().map(stored).collect::<Option<Vec<_>>>()?;
        let disks = parts.iter().filter_map(|part| part.block.watch.as_ref());
        let rights = disks.map(|disk| disk.threads.clone().try_acquire_owned().ok()).collect::<Option<_>>()?;
        Some(DiskRead { parts, _rights: rights })
    }

    pub fn disks(&self) -> Disks {
        Disks::of(self.parts.iter().filter_map(|part| part.block.watch.clone()))
    }

    /// Bytes of each stretch.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|part| part.length)
    }

    /// The bytes, as all that is in `buffer` then. Waits for the disks.
    pub fn load_into(&self, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.resize(self.lengths().sum(), 0);
        let mut rest = buffer.as_mut_slice();
        for part in &self.parts {
            let (now, later) = rest.split_at_mut(part.length);
            part.load_into(now)?;
            rest = later;
        }
        Ok(())
    }

    /// Has the bytes read in order by `read`, which is given file, offset and length, and may wait for the disk.
    pub fn in_calls(&self, mut read: impl FnMut(&File, u64, usize) -> io::Result<()>) -> io::Result<()> {
        self.parts.iter().try_for_each(|part| part.in_calls(&mut read))
    }
}

impl Disks {
    pub(crate) fn of(disks: impl IntoIterator<Item = Arc<DiskWatch>>) -> Self {
        Disks(disks.into_iter().collect())
    }

    /// Whether one of them hangs: whoever waits for it should look elsewhere.
    pub fn hang(&self) -> bool {
        self.0.iter().any(|disk| disk.hangs())
    }
}

//! Files in use: by handle, and by inode where opens are elided. Bounded; what is dropped is made again from the snapshot.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Inode;
use super::generation::Generation;
use crate::error::Result;
use crate::snapshot::NodeIndex;
use crate::sync::Mutex;
use crate::transfer::{ReaderState, Source};

const SHARDS: usize = 16;

/// Inodes remembered per shard: 8,192 in all, about 1 KiB each.
const INODES_PER_SHARD: usize = 512;

/// A file version ready to be read, and where its readers are in it.
pub(super) struct OpenFile {
    pub(super) source: Source,
    pub(super) reader: ReaderState,
    /// Keeps the snapshot mapped that the file belongs to.
    pub(super) generation: Arc<Generation>,
    pub(super) index: NodeIndex,
    pub(super) parent: NodeIndex,
}

/// All files in use.
pub(super) struct Files {
    by_inode: Vec<Mutex<Recent>>,
    by_handle: Vec<Mutex<HashMap<u64, Arc<OpenFile>>>>,
    next_handle: AtomicU64,
}

/// The recently used files of one shard: a clock that gives each entry a second chance.
#[derive(Default)]
struct Recent {
    places: HashMap<Inode, usize>,
    slots: Vec<Slot>,
    hand: usize,
}

struct Slot {
    inode: Inode,
    file: Arc<OpenFile>,
    used: bool,
}

impl OpenFile {
    /// The same file for a reader of its own.
    fn again(&self) -> Self {
        OpenFile {
            source: self.source.clone(),
            reader: ReaderState::new(),
            generation: self.generation.clone(),
            index: self.index,
            parent: self.parent,
        }
    }
}

impl Files {
    pub(super) fn new() -> Self {
        Files {
            by_inode: (0..SHARDS).map(|_| Mutex::default()).collect(),
            by_handle: (0..SHARDS).map(|_| Mutex::default()).collect(),
            next_handle: AtomicU64::new(1),
        }
    }

    /// The file of `handle`; without one (0) that of `inode`, made by `load` if it is not at hand.
    pub(super) fn find(
        &self,
        inode: Inode,
        handle: u64,
        load: impl FnOnce() -> Result<OpenFile>,
    ) -> Result<Arc<OpenFile>> {
        if handle != 0
            && let Some(file) = self.handles(handle).lock().get(&handle)
        {
            return Ok(file.clone());
        }
        let shard = &self.by_inode[inode as usize % SHARDS];
        if let Some(file) = shard.lock().get(inode) {
            return Ok(file);
        }
        let file = Arc::new(load()?);
        Ok(shard.lock().insert(inode, file))
    }

    /// A new handle on `file`, never 0.
    pub(super) fn open(&self, file: &OpenFile) -> u64 {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.handles(handle).lock().insert(handle, Arc::new(file.again()));
        handle
    }

    pub(super) fn release(&self, handle: u64) {
        self.handles(handle).lock().remove(&handle);
    }

    pub(super) fn open_handles(&self) -> usize {
        self.by_handle.iter().map(|shard| shard.lock().len()).sum()
    }

    fn handles(&self, handle: u64) -> &Mutex<HashMap<u64, Arc<OpenFile>>> {
        &self.by_handle[handle as usize % SHARDS]
    }
}

impl Recent {
    fn get(&mut self, inode: Inode) -> Option<Arc<OpenFile>> {
        let slot = &mut self.slots[*self.places.get(&inode)?];
        slot.used = true;
        Some(slot.file.clone())
    }

    /// Keeps `file`, unless another thread was faster; the one kept.
    fn insert(&mut self, inode: Inode, file: Arc<OpenFile>) -> Arc<OpenFile> {
        if let Some(earlier) = self.get(inode) {
            return earlier;
        }
        let slot = Slot { inode, file: file.clone(), used: false };
        if self.slots.len() < INODES_PER_SHARD {
            self.places.insert(inode, self.slots.len());
            self.slots.push(slot);
            return file;
        }
        while std::mem::take(&mut self.slots[self.hand].used) {
            self.hand = (self.hand + 1) % self.slots.len();
        }
        let replaced = std::mem::replace(&mut self.slots[self.hand], slot);
        self.places.remove(&replaced.inode);
        self.places.insert(inode, self.hand);
        self.hand = (self.hand + 1) % self.slots.len();
        file
    }
}

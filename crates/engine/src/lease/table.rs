//! The files that a mount has on lease: bounded, and what was not used for longest goes first. No I/O.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::lanes::Ticket;
use crate::budget::Permit;
use crate::ids::{BlockSize, FileId};
use crate::store::BlockMap;
use crate::sync::Mutex;

const SHARDS: usize = 16;
/// Fewer files than this stand under one lock.
const MANY: usize = 256;
/// Absent files remembered under one lock; they are forgotten all at once.
const MAX_ABSENT: usize = 4096;

/// A data file of the worker, open here. The description is locked: the blocks named stay as they are until it is closed.
#[derive(Debug)]
pub struct Lease {
    pub file: Arc<File>,
    /// Of the file version.
    pub size: u64,
    /// Of the data file when it was lent: a block that is not all below it is not there.
    pub length: u64,
    pub blocks: BlockMap,
    pub whole: bool,
    /// There is more that the worker was still verifying.
    pub unverified: bool,
    pub asked: Instant,
    /// The worker has got more blocks since.
    pub outdated: AtomicBool,
    pub ticket: Ticket,
    pub _descriptor: Permit,
}

impl Lease {
    pub fn holds(&self, index: u32, block_size: BlockSize) -> bool {
        let range = block_size.range(index, self.size);
        !range.is_empty() && range.end <= self.length && (self.whole || self.blocks.contains(index))
    }

    /// True when asking again may bring more.
    pub fn is_old(&self, now: Instant, lifetime: Duration) -> bool {
        self.unverified || self.outdated.load(Ordering::Relaxed) || now.duration_since(self.asked) >= lifetime
    }
}

/// A lease that left the table, to be given back.
pub type Left = (FileId, Arc<Lease>);

#[derive(Debug)]
pub struct Table {
    shards: Vec<Mutex<Shard>>,
    /// Moves on when `grow_older` is called: a clock that costs readers nothing.
    age: AtomicU32,
}

/// The leases under one lock: a clock that gives each a second chance.
#[derive(Debug, Default)]
struct Shard {
    places: HashMap<FileId, usize>,
    slots: Vec<Slot>,
    hand: usize,
    absent: HashMap<FileId, Instant>,
}

#[derive(Debug)]
struct Slot {
    id: FileId,
    lease: Arc<Lease>,
    used: bool,
    last_use: u32,
}

impl Table {
    /// A table for about `limit` files.
    pub fn new(limit: usize) -> Self {
        let shards = if limit < MANY { 1 } else { SHARDS };
        Table { shards: (0..shards).map(|_| Mutex::default()).collect(), age: AtomicU32::new(0) }
    }

    pub fn find(&self, id: &FileId) -> Option<Arc<Lease>> {
        let mut shard = self.shard(id).lock();
        let place = *shard.places.get(id)?;
        let slot = &mut shard.slots[place];
        slot.used = true;
        slot.last_use = self.age.load(Ordering::Relaxed);
        Some(slot.lease.clone())
    }

    /// Puts a lease in; what leaves for it, or had its place. One that the worker has replaced by then, for another
    /// thread that was quicker here, is left out.
    pub fn insert(&self, id: FileId, lease: Arc<Lease>, limit: usize) -> Vec<Left> {
        let mut shard = self.shard(&id).lock();
        let mut left = Vec::new();
        if shard.find(&id).is_some_and(|known| known.ticket.replaces(lease.ticket)) {
            return left;
        }
        left.extend(shard.remove(&id));
        let limit = (limit / self.shards.len()).max(1);
        while shard.slots.len() >= limit {
            left.extend(shard.remove_unused().or_else(|| shard.remove_any()));
        }
        shard.absent.remove(&id);
        let (place, last_use) = (shard.slots.len(), self.age.load(Ordering::Relaxed));
        shard.places.insert(id, place);
        shard.slots.push(Slot { id, lease, used: true, last_use });
        left
    }

    /// Takes this lease out, if it is still the one in the table.
    pub fn remove(&self, id: &FileId, lease: &Arc<Lease>) -> Option<Left> {
        let mut shard = self.shard(id).lock();
        let place = *shard.places.get(id)?;
        if Arc::ptr_eq(&shard.slots[place].lease, lease) { shard.remove(id) } else { None }
    }

    /// Takes out one lease that is in nobody's hands, of the lock that `near` falls to if it has one: to make room in the
    /// budget of descriptors.
    pub fn remove_one(&self, near: &FileId) -> Option<Left> {
        let first = self.shard(near).lock().remove_unused();
        first.or_else(|| self.shards.iter().find_map(|shard| shard.lock().remove_unused()))
    }

    /// Takes out what was not used since `grow_older` was called for the last time but one, and is in nobody's hands.
    pub fn grow_older(&self) -> Vec<Left> {
        let age = self.age.fetch_add(1, Ordering::Relaxed);
        let mut left = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            let idle = |slot: &&Slot| age.wrapping_sub(slot.last_use) >= 1 && Arc::strong_count(&slot.lease) == 1;
            let ids: Vec<FileId> = shard.slots.iter().filter(idle).map(|slot| slot.id).collect();
            left.extend(ids.iter().filter_map(|id| shard.remove(id)));
        }
        left
    }

    /// Remembers that the worker has nothing of a file.
    pub fn note_absent(&self, id: &FileId, now: Instant) {
        let mut shard = self.shard(id).lock();
        if shard.absent.len() >= MAX_ABSENT {
            shard.absent.clear();
        }
        shard.absent.insert(*id, now);
    }

    /// True when that was heard of less than `lifetime` ago.
    pub fn is_absent(&self, id: &FileId, now: Instant, lifetime: Duration) -> bool {
        self.shard(id).lock().absent.get(id).is_some_and(|heard| now.duration_since(*heard) < lifetime)
    }

    /// The worker has got more of a file: what is known of it is the past.
    pub fn outdate(&self, id: &FileId) {
        let mut shard = self.shard(id).lock();
        shard.absent.remove(id);
        if let Some(place) = shard.places.get(id) {
            shard.slots[*place].lease.outdated.store(true, Ordering::Relaxed);
        }
    }

    /// All leases, which are in the caller's hands meanwhile.
    pub fn all(&self) -> Vec<Left> {
        let of = |shard: &Mutex<Shard>| shard.lock().slots.iter().map(|slot| (slot.id, slot.lease.clone())).collect();
        self.shards.iter().flat_map(|shard| -> Vec<Left> { of(shard) }).collect()
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().slots.len()).sum()
    }

    fn shard(&self, id: &FileId) -> &Mutex<Shard> {
        &self.shards[id.0[14] as usize % self.shards.len()]
    }
}

impl Shard {
    fn find(&self, id: &FileId) -> Option<&Arc<Lease>> {
        Some(&self.slots[*self.places.get(id)?].lease)
    }

    fn remove(&mut self, id: &FileId) -> Option<Left> {
        let place = self.places.remove(id)?;
        let slot = self.slots.swap_remove(place);
        if let Some(moved) = self.slots.get(place) {
            self.places.insert(moved.id, place);
        }
        Some((slot.id, slot.lease))
    }

    /// The next by the clock that nobody reads right now.
    fn remove_unused(&mut self) -> Option<Left> {
        for _ in 0..2 * self.slots.len() {
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[self.hand];
            if !std::mem::take(&mut slot.used) && Arc::strong_count(&slot.lease) == 1 {
                let id = slot.id;
                return self.remove(&id);
            }
        }
        None
    }

    fn remove_any(&mut self) -> Option<Left> {
        let id = self.slots.first()?.id;
        self.remove(&id)
    }
}

#[cfg(test)]
mod tests;

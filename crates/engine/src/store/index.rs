//! What a cache folder holds, in memory: file versions, their blocks and their open data files. No I/O of its own.
//!
//! Sharded by file version, so that all blocks of one file stand under one lock. About 90 bytes a file of one block and
//! 12 bytes for each further block.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hashbrown::HashTable;

use super::part::{BlockState, Part};
use super::weights::Weights;
use crate::ids::{BlockSize, FileId};
use crate::sync::{Mutex, MutexGuard};

pub const SHARDS: usize = 64;

/// The file versions whose ids fall to one lock.
#[derive(Debug, Default)]
pub struct Shard {
    table: HashTable<u32>,
    parts: Vec<Option<Part>>,
    free: Vec<u32>,
    /// Present blocks by part, to draw a block at random; those of pinned parts count nothing.
    weights: Weights,
    /// Their number, for those who do not hold the lock.
    total: Arc<AtomicU32>,
    /// Where the search for a descriptor to close goes on.
    hand: usize,
    block_size: BlockSize,
    /// Content bytes of pinned parts, of all shards.
    pinned_bytes: Arc<AtomicU64>,
}

impl Shard {
    pub fn find(&self, id: &FileId) -> Option<&Part> {
        let number = *self.table.find(hash(id), |number| self.id_at(*number) == Some(*id))?;
        self.parts[number as usize].as_ref()
    }

    pub fn find_mut(&mut self, id: &FileId) -> Option<&mut Part> {
        let number = self.number(id)?;
        self.parts[number as usize].as_mut()
    }

    /// The part of `id`; `make` gives it when there is none.
    pub fn find_or_insert(&mut self, id: &FileId, make: impl FnOnce() -> Part) -> &mut Part {
        let number = match self.number(id) {
            Some(number) => number,
            None => self.insert(make()),
        };
        self.parts[number as usize].get_or_insert_with(|| unreachable!("the table names an empty place"))
    }

    fn insert(&mut self, part: Part) -> u32 {
        let id = part.id;
        let number = self.free.pop().unwrap_or_else(|| {
            if self.parts.len() == self.parts.capacity() {
                self.parts.reserve_exact(self.parts.len() / 8 + 4);
            }
            self.parts.push(None);
            self.weights.push();
            self.parts.len() as u32 - 1
        });
        self.parts[number as usize] = Some(part);
        let parts = &self.parts;
        self.table.insert_unique(hash(&id), number, |number| {
            parts[*number as usize].as_ref().map_or(0, |part| hash(&part.id))
        });
        number
    }

    /// Takes the part out; its blocks are no longer counted.
    pub fn remove(&mut self, id: &FileId) -> Option<Part> {
        let number = self.number(id)?;
        self.table.find_entry(hash(id), |found| *found == number).ok()?.remove();
        let part = self.parts[number as usize].take()?;
        self.weigh(number, -drawn(&part));
        self.pinned_bytes.fetch_sub(kept_bytes(&part, self.block_size), Ordering::Relaxed);
        self.free.push(number);
        Some(part)
    }

    /// Changes the state of a block and keeps the counts right.
    pub fn set_state(&mut self, id: &FileId, index: u32, state: BlockState) {
        let Some(number) = self.number(id) else { return };
        self.change(number, |part| {
            let slot = part.slot_mut(index);
            let before = std::mem::replace(&mut slot.state, state) == BlockState::Present;
            let after = state == BlockState::Present;
            slot.trusted &= after;
            part.present = part.present + u32::from(after) - u32::from(before);
        });
    }

    /// Takes the blocks of a part out of those that are drawn, or puts them back.
    pub fn set_pinned(&mut self, id: &FileId, pinned: bool) {
        let Some(number) = self.number(id) else { return };
        self.change(number, |part| part.pinned = pinned);
    }

    /// Changes a part and keeps what is counted of it right.
    fn change(&mut self, number: u32, make: impl FnOnce(&mut Part)) {
        let block_size = self.block_size;
        let Some(part) = self.parts[number as usize].as_mut() else { return };
        let (weight, kept) = (drawn(part), kept_bytes(part, block_size));
        make(part);
        let (change, now_kept) = (drawn(part) - weight, kept_bytes(part, block_size));
        self.pinned_bytes.fetch_add(now_kept.wrapping_sub(kept), Ordering::Relaxed);
        self.weigh(number, change);
    }

    fn weigh(&mut self, number: u32, change: i32) {
        self.weights.add(number, change);
        self.total.store(self.weights.total(), Ordering::Relaxed);
    }

    /// Block number `draw` modulo the present ones that are not pinned, each counted once: a uniform choice for a
    /// uniform `draw`.
    pub fn pick(&self, draw: u32) -> Option<(&Part, u32)> {
        let total = self.weights.total();
        let (number, rank) = self.weights.find(draw.checked_rem(total)?);
        let part = self.parts.get(number as usize)?.as_ref()?;
        if part.present as usize == part.slots().len() {
            return Some((part, rank));
        }
        part.present_indices().nth(rank as usize).map(|index| (part, index))
    }

    /// Closes one data file that nobody holds and that was not read since the last look; true when it found one.
    pub fn close_one(&mut self) -> bool {
        for _ in 0..2 * self.parts.len() {
            self.hand = (self.hand + 1) % self.parts.len();
            let Some(part) = self.parts[self.hand].as_mut().filter(|part| part.open.is_some()) else { continue };
            if part.is_pinned() || part.busy > 0 || std::mem::take(&mut part.recent) {
                continue;
            }
            part.open = None;
            return true;
        }
        false
    }

    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().flatten()
    }

    fn number(&self, id: &FileId) -> Option<u32> {
        self.table.find(hash(id), |number| self.id_at(*number) == Some(*id)).copied()
    }

    fn id_at(&self, number: u32) -> Option<FileId> {
        self.parts[number as usize].as_ref().map(|part| part.id)
    }
}

/// All file versions of a folder.
#[derive(Debug)]
pub struct Index {
    shards: Vec<Mutex<Shard>>,
    totals: Vec<Arc<AtomicU32>>,
    draws: AtomicU64,
    pinned_bytes: Arc<AtomicU64>,
}

impl Index {
    pub fn new(block_size: BlockSize) -> Self {
        let totals: Vec<Arc<AtomicU32>> = (0..SHARDS).map(|_| Arc::default()).collect();
        let pinned_bytes = Arc::<AtomicU64>::default();
        let shard = |total: &Arc<AtomicU32>| {
            let (total, pinned_bytes) = (total.clone(), pinned_bytes.clone());
            Mutex::new(Shard { total, block_size, pinned_bytes, ..Shard::default() })
        };
        let shards = totals.iter().map(shard).collect();
        Index { shards, totals, draws: AtomicU64::new(0x2545_f491_4f6c_dd1d), pinned_bytes }
    }

    /// Content bytes of what is pinned by name.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes.load(Ordering::Relaxed)
    }

    pub fn shard(&self, id: &FileId) -> MutexGuard<'_, Shard> {
        self.shards[id.0[15] as usize % SHARDS].lock()
    }

    pub fn shards(&self) -> impl Iterator<Item = &Mutex<Shard>> {
        self.shards.iter()
    }

    /// Looks at a block drawn at random; `None` when there is none.
    pub fn pick<T>(&self, look: impl FnOnce(&Part, u32) -> T) -> Option<T> {
        let draw = split_mix(self.draws.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed));
        let totals = self.totals.iter().map(|total| u64::from(total.load(Ordering::Relaxed)));
        let mut rank = draw.checked_rem(totals.clone().sum())?;
        let shard = totals.enumerate().find_map(|(number, total)| {
            let found = rank < total;
            rank -= if found { 0 } else { total };
            found.then_some(number)
        })?;
        let shard = self.shards[shard].lock();
        shard.pick(rank as u32).map(|(part, index)| look(part, index))
    }

    /// The ids of all file versions, as they stand shard by shard.
    pub fn ids(&self) -> impl Iterator<Item = FileId> {
        self.shards.iter().flat_map(|shard| shard.lock().parts().map(|part| part.id).collect::<Vec<_>>())
    }
}

/// How many blocks of the part may be drawn.
fn drawn(part: &Part) -> i32 {
    if part.pinned { 0 } else { part.present as i32 }
}

/// What of a pinned part is here.
fn kept_bytes(part: &Part, block_size: BlockSize) -> u64 {
    if part.pinned { part.content_bytes(block_size) } else { 0 }
}

/// Ids are digests: any eight bytes of them are a hash. The shard was chosen by the last byte.
fn hash(id: &FileId) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&id.0[..8]);
    u64::from_le_bytes(bytes)
}

fn split_mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::super::part::Slot;
    use super::*;

    const MIB: u64 = 1 << 20;

    fn block_size() -> BlockSize {
        BlockSize::new(MIB as u32).expect("valid")
    }

    fn part(number: u32, blocks: u32) -> Part {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_le_bytes());
        id[15] = number as u8;
        Part::new(FileId(id), u64::from(blocks) * MIB, blocks)
    }

    #[test]
    fn block_costs_less_than_a_hundred_bytes() {
        assert_eq!(size_of::<Slot>(), 12);
        // Beside the part: up to 9 bytes in the table, 4 of weight, an eighth of slack.
        assert!(size_of::<Option<Part>>() <= 80, "{}", size_of::<Option<Part>>());
    }

    #[test]
    fn pick_finds_every_present_block_and_no_other() {
        let index = Index::new(block_size());
        let mut expected = std::collections::BTreeSet::new();
        for number in 0..200 {
            let made = part(number, 1 + number % 3);
            let id = made.id;
            let mut shard = index.shard(&id);
            shard.find_or_insert(&id, || made);
            for block in (0..=number % 3).filter(|block| block % 2 == 0) {
                shard.set_state(&id, block, BlockState::Present);
                expected.insert((id, block));
            }
            if number % 10 == 0 {
                shard.remove(&id);
                expected.retain(|(other, _)| *other != id);
            }
        }
        let found: std::collections::BTreeSet<_> =
            (0..20_000).filter_map(|_| index.pick(|part, block| (part.id, block))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn pinned_parts_are_never_drawn() {
        let index = Index::new(block_size());
        for number in 0..50 {
            let made = part(number, 2);
            let id = made.id;
            let mut shard = index.shard(&id);
            shard.find_or_insert(&id, || made);
            shard.set_state(&id, 0, BlockState::Present);
            shard.set_pinned(&id, number % 2 == 0);
            shard.set_state(&id, 1, BlockState::Present);
        }
        assert_eq!(index.pinned_bytes(), 25 * 2 * MIB);
        let drawn = |index: &Index| (0..5000).filter_map(|_| index.pick(|part, _| part.pinned)).collect::<Vec<_>>();
        assert!(!drawn(&index).contains(&true) && drawn(&index).len() == 5000);
        for id in index.ids().collect::<Vec<_>>() {
            index.shard(&id).set_pinned(&id, false);
            index.shard(&id).set_state(&id, 0, BlockState::Absent);
        }
        assert_eq!(index.totals.iter().map(|total| total.load(Ordering::Relaxed)).sum::<u32>(), 50);
        for id in index.ids().collect::<Vec<_>>() {
            index.shard(&id).set_pinned(&id, true);
        }
        assert!(drawn(&index).is_empty());
        assert_eq!(index.pinned_bytes(), 50 * MIB);
        for id in index.ids().collect::<Vec<_>>() {
            index.shard(&id).remove(&id);
        }
        assert_eq!(index.pinned_bytes(), 0);
    }

    #[test]
    fn content_is_told_without_a_look_at_each_block() {
        let size = 3 * MIB + 5;
        let mut part = Part::new(FileId([0; 16]), size, 4);
        let mut expected = 0;
        for index in [3, 0, 2] {
            part.slot_mut(index).state = BlockState::Present;
            part.present += 1;
            expected += block_size().range(index, size).length();
            assert_eq!(part.content_bytes(block_size()), expected);
        }
    }

    #[test]
    fn removed_parts_leave_room_for_others() {
        let mut shard = Shard::default();
        for round in 0..1000 {
            let made = part(round, 1);
            let id = made.id;
            shard.find_or_insert(&id, || made);
            assert!(shard.find(&id).is_some());
            assert!(shard.remove(&id).is_some());
            assert!(shard.find(&id).is_none());
        }
        assert_eq!(shard.parts.len(), 1);
    }
}

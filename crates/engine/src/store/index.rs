//! The content of a cache folder, in memory: file versions, their blocks and their open data files. No I/O of its own.
//!
//! Sharded by file version, so that all blocks of one file stand under one lock. About 90 bytes a file of one block and
//! 12 bytes for each further block.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hashbrown::HashTable;

use super::blocks::Proof;
use super::listed::{Fragment, Share, Standing, Sum, Tally};
use super::part::{BlockState, OpenFile, Part};
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
    /// Parts whose data file is open, and some that have gone or were closed meanwhile: those are forgotten when they are
    /// come across. The one that was longest ago looked at is first.
    open: VecDeque<u32>,
    block_size: BlockSize,
    /// Content bytes of pinned parts, of all shards.
    pinned_bytes: Arc<AtomicU64>,
    /// How often a block has come or gone, of all shards.
    changes: Arc<AtomicU64>,
    tally: Tally,
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
        self.tally.replace(number, share(&part, self.block_size), Share::Nothing);
        self.changes.fetch_add(u64::from(part.present > 0), Ordering::Release);
        self.free.push(number);
        Some(part)
    }

    /// Changes the state of a block and keeps the counts right.
    pub fn set_state(&mut self, id: &FileId, index: u32, state: BlockState) {
        let Some(number) = self.number(id) else { return };
        let mut changed = false;
        self.change(number, |part| {
            let slot = part.slot_mut(index);
            let before = std::mem::replace(&mut slot.state, state) == BlockState::Present;
            let after = state == BlockState::Present;
            changed = before != after;
            slot.trusted &= after;
            part.present = part.present + u32::from(after) - u32::from(before);
        });
        self.changes.fetch_add(u64::from(changed), Ordering::Release);
    }

    /// Takes the blocks of a part out of those that are drawn, or puts them back.
    pub fn set_pinned(&mut self, id: &FileId, pinned: bool) {
        let Some(number) = self.number(id) else { return };
        self.change(number, |part| part.pinned = pinned);
    }

    /// Notes what a part is to list number `list`; without effect when the shard does not go by that.
    pub fn set_standing(&mut self, id: &FileId, list: u64, standing: Standing) {
        let Some(number) = self.number(id).filter(|_| self.tally.list == list) else { return };
        self.change(number, |part| part.standing = standing);
    }

    /// What is known of the comparison of a part that is on the list has changed.
    pub fn set_compared(&mut self, id: &FileId, proof: Option<Proof>) {
        let Some(number) = self.number(id) else { return };
        self.change(number, |part| part.standing = part.standing.compared(proof));
    }

    /// Goes by list number `list`, on which no part is yet.
    pub fn begin_list(&mut self, list: u64) {
        self.parts.iter_mut().flatten().for_each(|part| part.standing = Standing::Unlisted);
        self.tally = Tally::new(list);
    }

    /// Adds what of the list is here: a look at parts that are not whole, and no others.
    pub fn add_listed(&self, sum: &mut Sum) {
        let parts = self.tally.partial().filter_map(|number| self.parts.get(number as usize)?.as_ref());
        let fragment = |part: &Part| {
            let bytes = part.content_bytes(self.block_size);
            Fragment { id: part.id, size: part.size, bytes, standing: part.standing }
        };
        sum.add(&self.tally, parts.map(fragment));
    }

    /// Changes a part and keeps what is counted of it right.
    fn change(&mut self, number: u32, make: impl FnOnce(&mut Part)) {
        let block_size = self.block_size;
        let Some(part) = self.parts[number as usize].as_mut() else { return };
        let (weight, kept, before) = (drawn(part), kept_bytes(part, block_size), share(part, block_size));
        make(part);
        let (change, now_kept) = (drawn(part) - weight, kept_bytes(part, block_size));
        self.tally.replace(number, before, share(part, block_size));
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
        for _ in 0..2 * self.open.len() {
            let Some(number) = self.open.pop_front() else { return false };
            let part = self.parts.get_mut(number as usize).and_then(Option::as_mut);
            let Some(part) = part.filter(|part| part.open.is_some()) else { continue };
            if part.is_pinned() || part.busy > 0 || std::mem::take(&mut part.recent) {
                self.open.push_back(number);
                continue;
            }
            part.open = None;
            return true;
        }
        false
    }

    /// Makes `opened` the data file of a part that has none; another one that it has is the answer.
    pub fn attach(&mut self, id: &FileId, opened: Arc<OpenFile>) -> Option<Arc<OpenFile>> {
        let number = self.number(id)?;
        let part = self.parts[number as usize].as_mut()?;
        let is_new = part.open.is_none();
        let open = part.open.get_or_insert(opened).clone();
        if is_new {
            self.note_open(number);
        }
        Some(open)
    }

    fn note_open(&mut self, number: u32) {
        // Those that were closed elsewhere are thrown out now and then, so that they are never more than the open ones.
        if self.open.len() == self.open.capacity() {
            let (parts, mut seen) = (&self.parts, HashSet::new());
            self.open.retain(|other| {
                let is_open =
                    parts.get(*other as usize).and_then(Option::as_ref).is_some_and(|part| part.open.is_some());
                is_open && *other != number && seen.insert(*other)
            });
            self.open.reserve(self.open.len().max(4));
        }
        self.open.push_back(number);
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
    changes: Arc<AtomicU64>,
}

impl Index {
    pub fn new(block_size: BlockSize) -> Self {
        let totals: Vec<Arc<AtomicU32>> = (0..SHARDS).map(|_| Arc::default()).collect();
        let (pinned_bytes, changes) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let shard = |total: &Arc<AtomicU32>| {
            let (total, pinned_bytes, changes) = (total.clone(), pinned_bytes.clone(), changes.clone());
            Mutex::new(Shard { total, block_size, pinned_bytes, changes, ..Shard::default() })
        };
        let shards = totals.iter().map(shard).collect();
        Index { shards, totals, draws: AtomicU64::new(0x2545_f491_4f6c_dd1d), pinned_bytes, changes }
    }

    /// Grows whenever a block comes or goes.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
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

/// How the part counts for the list.
fn share(part: &Part, block_size: BlockSize) -> Share {
    match part.standing {
        Standing::Unlisted => Share::Nothing,
        _ if part.present == 0 => Share::Nothing,
        standing if part.present == block_size.count(part.size) => Share::Whole(standing, part.size),
        _ => Share::Partial,
    }
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

    fn opened(open_files: &Arc<AtomicU64>) -> Arc<OpenFile> {
        let file = Arc::new(std::fs::File::open("/dev/null").expect("there is one"));
        let permit = crate::budget::Budget::count("descriptors", 1).try_acquire(1).expect("it is free");
        Arc::new(OpenFile { file, _descriptor: super::super::part::Descriptor::new(permit, open_files) })
    }

    /// A shard of `count` parts of one block each.
    fn shard_of(count: u32) -> (Shard, Vec<FileId>) {
        let mut shard = Shard::default();
        let ids: Vec<_> = (0..count).map(|number| part(number, 1).id).collect();
        (0..count).for_each(|number| {
            shard.find_or_insert(&ids[number as usize], || part(number, 1));
        });
        (shard, ids)
    }

    #[test]
    fn closing_looks_at_open_files_alone() {
        let (mut shard, ids) = shard_of(10_000);
        let open_files = Arc::default();
        assert!(!shard.close_one());
        for id in &ids[..3] {
            shard.attach(id, opened(&open_files));
        }
        assert_eq!(shard.open.len(), 3, "the others are not looked at");
        let held = shard.find(&ids[0]).and_then(|part| part.open.clone());
        assert!(shard.close_one() && shard.close_one() && !shard.close_one());
        assert!(held.is_some() && shard.find(&ids[0]).is_some_and(|part| part.open.is_some()), "somebody holds it");
        drop(held);
        assert!(shard.close_one());
        assert_eq!((open_files.load(Ordering::Relaxed), shard.open.len()), (0, 0));
    }

    #[test]
    fn what_was_read_since_the_last_look_is_closed_last() {
        let (mut shard, ids) = shard_of(3);
        for id in &ids {
            shard.attach(id, opened(&Arc::default()));
        }
        shard.find_mut(&ids[0]).expect("it is there").recent = true;
        let is_open = |shard: &Shard| {
            ids.iter().map(|id| shard.find(id).is_some_and(|part| part.open.is_some())).collect::<Vec<_>>()
        };
        assert!(shard.close_one());
        assert_eq!(is_open(&shard), [true, false, true]);
        assert!(shard.close_one());
        assert_eq!(is_open(&shard), [true, false, false]);
        assert!(shard.close_one());
        assert_eq!(is_open(&shard), [false, false, false]);
    }

    #[test]
    fn files_that_are_opened_and_removed_again_and_again_leave_no_list() {
        let mut shard = Shard::default();
        for round in 0..10_000 {
            let made = part(round, 1);
            let id = made.id;
            shard.find_or_insert(&id, || made);
            shard.attach(&id, opened(&Arc::default()));
            shard.remove(&id);
        }
        assert!(shard.open.len() < 64, "{}", shard.open.len());
        assert!(!shard.close_one());
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

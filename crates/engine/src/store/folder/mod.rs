//! One cache folder: its lock, log, data files, index and quota. Knows no levels and no other folder.
//!
//! Lock order: a shard's lock is never held over I/O on data or log (but for one `fstat`); the log's lock may be held
//! while a shard's is taken, never the other way.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::counters::{Counters, LevelGauges};
use super::disk;
use super::eviction::{self, Eviction, Mark, Tick};
use super::index::Index;
use super::listed::{Catalogue, List, Standing, Sum};
use super::lock::FolderLock;
use super::log::Log;
use super::part::Part;
use super::pins::Pins;
use super::proofs::Proofs;
use super::watch::DiskWatch;
use super::wrong::WrongContent;
use crate::budget::Budget;
use crate::ids::{BlockSize, FileId, FileKey};
use crate::sync::RwLock;

mod aside;
mod descriptors;
mod lend;
mod promises;
mod read;
mod recover;
mod remove;
#[cfg(test)]
mod tests;
mod write;

pub use read::{FolderAnswer, Verdict};
pub use recover::make_directory;
pub use remove::Removal;
pub use write::{Content, Fault};

/// A file may have this many blocks at most.
pub const MAX_BLOCKS: u64 = 1 << 24;
/// What all folders of a store have in common.
#[derive(Debug)]
pub struct StoreState {
    pub block_size: BlockSize,
    pub policy: Box<dyn Eviction>,
    pub clock: AtomicU64,
    pub descriptors: Budget,
    /// The share of them for files that the kernel and other processes were given.
    pub lent: Budget,
    /// Most data files that one folder keeps open.
    pub descriptor_share: u64,
    pub counters: Counters,
    pub started: Instant,
    pub pins: Pins,
    pub proofs: Proofs,
    pub wrong: WrongContent,
    pub list: List,
}

impl StoreState {
    pub fn now(&self) -> Tick {
        self.clock.load(Ordering::Relaxed)
    }

    /// Counts one more access, to this block.
    pub fn tick(&self, id: &FileId, index: u32) -> Tick {
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        self.policy.observe(block_hash(id, index), now);
        now
    }
}

#[derive(Debug)]
pub struct Folder {
    pub path: PathBuf,
    pub quota_bytes: u64,
    pub level: usize,
    pub watch: Arc<DiskWatch>,
    shared: Arc<StoreState>,
    gauges: LevelGauges,
    lock: FolderLock,
    log: Log,
    index: Index,
    used: AtomicU64,
    blocks: AtomicU64,
    content_bytes: AtomicU64,
    open_files: Arc<AtomicU64>,
    aside: aside::Aside,
    /// The file system can give back the room of one block.
    punches: AtomicBool,
    /// A data file is left that no record speaks of.
    strays: AtomicBool,
    promises: crate::sync::Mutex<promises::Promises>,
    /// Held by whoever changes the folder; true once it is closed.
    closed: RwLock<bool>,
}

impl Folder {
    /// Bytes of the quota that are taken.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Bytes of files that are here, without what pages are filled up with.
    pub fn held_bytes(&self) -> u64 {
        self.content_bytes.load(Ordering::Relaxed)
    }

    pub fn free(&self) -> u64 {
        self.quota_bytes.saturating_sub(self.used())
    }

    /// Free share of the quota, for choosing between folders.
    pub fn free_share(&self) -> f64 {
        self.free() as f64 / self.quota_bytes.max(1) as f64
    }

    /// True when something new may be kept here.
    pub fn is_of_use(&self) -> bool {
        !self.is_aside() && !self.watch.hangs()
    }

    fn now_s(&self) -> u32 {
        self.shared.started.elapsed().as_secs() as u32
    }

    fn now_ms(&self) -> u64 {
        self.shared.started.elapsed().as_millis() as u64
    }

    pub fn may_contain(&self, id: &FileId, index: u32) -> bool {
        self.index.shard(id).find(id).is_some_and(|part| part.holds(index))
    }

    /// True when some block of the file version is here.
    pub fn holds_file(&self, id: &FileId) -> bool {
        self.index.shard(id).find(id).is_some_and(|part| part.present > 0)
    }

    /// True when every block of the file version is here.
    pub fn holds_whole(&self, id: &FileId) -> bool {
        let count = |size| self.shared.block_size.count(size);
        self.index.shard(id).find(id).is_some_and(|part| part.present == count(part.size))
    }

    /// How many file versions have a place here.
    pub fn file_versions(&self) -> u64 {
        self.index.shards().map(|shard| shard.lock().parts().count() as u64).sum()
    }

    /// How many blocks of the file version are here.
    pub fn present(&self, id: &FileId) -> u32 {
        self.index.shard(id).find(id).map_or(0, |part| part.present)
    }

    /// How many blocks the file version has in all, if something of it is here.
    pub fn block_count(&self, id: &FileId) -> Option<u32> {
        self.index.shard(id).find(id).map(|part| self.shared.block_size.count(part.size))
    }

    /// Notes in the log what is known of the file version, some of which is here: how it compares with its checksum at the
    /// origin. A log that cannot be written to costs the next process another comparison.
    pub fn note_proof(&self, id: &FileId) {
        let Some(proof) = self.shared.proofs.get(id) else { return };
        if let Err(error) = self.log.append_compared(*id, proof) {
            tracing::debug!("cannot note that {id} was compared: {error}");
        }
    }

    /// Fills in the checksums of the blocks that are here.
    pub fn checksums(&self, id: &FileId, crcs: &mut [Option<u32>]) {
        let shard = self.index.shard(id);
        let Some(part) = shard.find(id) else { return };
        for index in part.present_indices() {
            if let Some(crc) = crcs.get_mut(index as usize) {
                *crc = Some(part.slot(index).crc);
            }
        }
    }

    /// Content bytes of this file version that are here.
    pub fn cached_bytes(&self, id: &FileId) -> u64 {
        self.index.shard(id).find(id).map_or(0, |part| self.content_bytes(part))
    }

    fn content_bytes(&self, part: &Part) -> u64 {
        part.content_bytes(self.shared.block_size)
    }

    /// Grows whenever a block comes or goes.
    pub fn changes(&self) -> u64 {
        self.index.changes()
    }

    /// Content bytes here of what is pinned by name.
    pub fn pinned_bytes(&self) -> u64 {
        self.index.pinned_bytes()
    }

    /// Counts by list number `list` from now on, on which nothing is yet.
    pub fn begin_list(&self, list: u64) {
        self.index.shards().for_each(|shard| shard.lock().begin_list(list));
    }

    /// The file version is on list number `list`.
    pub fn mark_listed(&self, id: &FileId, list: u64, has_checksums: bool) {
        let mut shard = self.index.shard(id);
        // Looked up with the lock held: a comparison is noted first, and told of then.
        let standing = Standing::listed(has_checksums, self.shared.proofs.get(id));
        shard.set_standing(id, list, standing);
    }

    /// Looks up every file version that is here in `catalogue`, which is list number `list`. Reads keys from the log.
    pub fn look_up_all(&self, list: u64, catalogue: &dyn Catalogue) {
        for id in self.index.ids() {
            let has_checksums = self.key(&id).and_then(|key| catalogue.has_checksums(&key));
            has_checksums.into_iter().for_each(|has_checksums| self.mark_listed(&id, list, has_checksums));
        }
    }

    /// What is known of the comparison of the file version has changed.
    pub fn note_compared(&self, id: &FileId) {
        let mut shard = self.index.shard(id);
        let proof = self.shared.proofs.get(id);
        shard.set_compared(id, proof);
    }

    /// Adds what of the list is here.
    pub fn add_listed(&self, sum: &mut Sum) {
        self.index.shards().for_each(|shard| shard.lock().add_listed(sum));
    }

    /// True for files that are evicted as a whole, whoever holds them.
    fn is_small(&self, size: u64) -> bool {
        size <= self.quota_bytes / 32
    }

    fn length_of(&self, size: u64, index: u32) -> u32 {
        self.shared.block_size.range(index, size).length() as u32
    }

    fn offset_of(&self, index: u32) -> u64 {
        u64::from(index) * u64::from(self.shared.block_size.bytes())
    }

    /// Takes note of a change in `Shared::pins`.
    pub fn set_pinned(&self, id: &FileId, pinned: bool) {
        self.index.shard(id).set_pinned(id, pinned);
    }

    /// The ids of all file versions here.
    pub fn ids(&self) -> impl Iterator<Item = FileId> {
        self.index.ids()
    }

    /// The key of a file version that is here, read from the log.
    pub fn key(&self, id: &FileId) -> Option<FileKey> {
        // A compaction may move the record between the two look-ups; it cannot do so every time.
        (0..3).find_map(|_| {
            let record = self.index.shard(id).find(id)?.record;
            self.log.read_key(id, record)
        })
    }

    /// Takes `bytes` of the quota, if they are free.
    pub fn reserve(&self, bytes: u64) -> bool {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.quota_bytes)
        });
        if taken.is_ok() {
            self.gauges.used_bytes.inc_by(bytes);
        }
        taken.is_ok()
    }

    /// Gives bytes of the quota back.
    pub fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.gauges.used_bytes.dec_by(bytes);
    }

    fn count_blocks(&self, change: i64, content_change: i64) {
        self.content_bytes.fetch_add(content_change as u64, Ordering::Relaxed);
        self.blocks.fetch_add(change as u64, Ordering::Relaxed);
        if change >= 0 {
            self.gauges.blocks.inc_by(change as u64)
        } else {
            self.gauges.blocks.dec_by(change.unsigned_abs())
        };
    }

    /// True when a block of `id` may use free room because the whole file fits.
    pub fn admits_whole(&self, id: &FileId, size: u64, length: u32) -> bool {
        let missing = size.saturating_sub(self.cached_bytes(id)).next_multiple_of(4096);
        self.promises.lock().admit_whole(id, charge(length), missing, self.free(), self.shared.now())
    }

    /// True when a block of `id` may use the folder's last room, though the file will not be whole.
    pub fn admits_spill(&self, id: &FileId, length: u32) -> bool {
        self.promises.lock().admit_spill(id, charge(length), self.free(), self.shared.now())
    }

    /// True when `bytes` are free and promised to no file that is being filled.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.promises.lock().unpromised(self.free(), bytes, self.shared.now()) >= bytes
    }

    /// The block that should give way first among some drawn at random, by the policy or, when `forced`, by age alone.
    pub fn victim(&self, now: Tick, forced: bool) -> Option<Victim> {
        let now_s = self.now_s();
        let best = |_| {
            self.index.pick(|part, index| {
                let small = part.present > 1 && self.is_small(part.size);
                let whole = small || part.is_lent() || !self.punches.load(Ordering::Relaxed);
                let mark = if whole { part.mark() } else { part.slot(index).mark() };
                let score = if forced { Some(mark.idle(now)) } else { self.shared.policy.surrender(mark, now) };
                // A small file goes from under another process that holds it: that room is soon free.
                let takeable = !part.is_pinned() && part.busy == 0 && (small || part.held_until_s <= now_s);
                score.filter(|_| takeable).map(|score| Victim {
                    id: part.id,
                    index: (!whole).then_some(index),
                    score,
                    mark,
                })
            })?
        };
        (0..eviction::CANDIDATES).filter_map(best).max_by_key(|victim| victim.score)
    }

    /// True when rewriting the log would pay.
    pub fn wants_compaction(&self) -> bool {
        self.log.wants_compaction()
    }

    /// Rewrites the log without what is gone.
    pub fn compact(&self) -> std::io::Result<()> {
        use super::record::Record;
        let keep = |record: &Record| match record {
            Record::File { id, .. } => self.index.shard(id).find(id).is_some(),
            Record::Lent { id } => self.is_lent(id),
            Record::Compared { id, proof } => self.shared.proofs.get(id) == Some(*proof),
            Record::Block { id, index, crc, .. } => self.index.shard(id).find(id).is_some_and(|part| {
                let slot = part.slot(*index);
                slot.state != super::part::BlockState::Absent && slot.crc == *crc
            }),
            _ => false,
        };
        let moved = |id: FileId, offset: u64| {
            if let Some(part) = self.index.shard(&id).find_mut(&id) {
                part.record = offset;
            }
        };
        self.log.compact(keep, moved)
    }

    /// Waits for those who change the folder, ends the log and gives the folder free. Nothing is changed afterwards.
    pub fn close(&self) -> std::io::Result<()> {
        let mut closed = self.closed.write();
        *closed = true;
        // With one, the log does not say what is here.
        let result = if self.strays.load(Ordering::Relaxed) { Ok(()) } else { self.log.close() };
        self.watch.during(|| self.lock.release());
        result
    }
}

/// A block, or with `index: None` a whole file version, that may go.
#[derive(Debug, Clone, Copy)]
pub struct Victim {
    pub id: FileId,
    pub index: Option<u32>,
    pub score: u64,
    pub mark: Mark,
}

/// A hash of a block's identity. Ids are digests, so some of their bytes and the index, mixed, suffice.
fn block_hash(id: &FileId, index: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&id.0[4..12]);
    let mixed = (u64::from_le_bytes(bytes) ^ u64::from(index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// What a block takes of the quota.
fn charge(length: u32) -> u64 {
    disk::allocated(length)
}

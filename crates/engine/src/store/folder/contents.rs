//! The contents of a folder: the index of its blocks, and the log that says so after a restart.

use std::io;
use std::sync::Arc;

use super::place::Place;
use crate::ids::{FileId, FileKey};
use crate::store::index::Index;
use crate::store::listed::{Catalogue, Standing, Sum};
use crate::store::log::Log;
use crate::store::part::{BlockState, Lending, Part};
use crate::store::record::Record;
use crate::sync::RwLock;

/// The blocks of one folder, as index and log know them.
#[derive(Debug)]
pub struct Contents {
    pub index: Index,
    pub log: Log,
    /// Held by whoever changes the folder; true once it is closed.
    pub closed: RwLock<bool>,
    place: Arc<Place>,
}

impl Contents {
    pub fn new(place: &Arc<Place>, index: Index, log: Log) -> Self {
        Contents { index, log, closed: RwLock::new(false), place: place.clone() }
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
        let count = |size| self.place.shared.block_size.count(size);
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
        self.index.shard(id).find(id).map(|part| self.place.shared.block_size.count(part.size))
    }

    /// The indices of the file version's blocks that are here.
    pub fn indices(&self, id: &FileId) -> Vec<u32> {
        self.index.shard(id).find(id).map(|part| part.present_indices().collect()).unwrap_or_default()
    }

    /// The checksum of a block that is here.
    pub fn crc_of(&self, id: &FileId, index: u32) -> Option<u32> {
        let shard = self.index.shard(id);
        shard.find(id).filter(|part| part.holds(index)).map(|part| part.slot(index).crc)
    }

    /// True when somebody may have the data file of `id` mapped.
    pub fn is_lent(&self, id: &FileId) -> bool {
        self.index.shard(id).find(id).is_some_and(Part::is_lent)
    }

    /// Up to `most` blocks of the file version that must be verified before they are used.
    pub fn suspects(&self, id: &FileId, most: usize) -> Vec<u32> {
        let shard = self.index.shard(id);
        let suspects = |part: &Part| {
            let suspects = part.present_indices().filter(|index| !part.slot(*index).trusted);
            suspects.take(most).collect::<Vec<_>>()
        };
        shard.find(id).map(suspects).unwrap_or_default()
    }

    /// True when `whole_file` would answer if all of it were verified.
    pub fn wants_verification(&self, id: &FileId, size: u64) -> bool {
        let count = self.place.shared.block_size.count(size);
        let shard = self.index.shard(id);
        shard.find(id).is_some_and(|part| {
            let trusted = part.slots().iter().filter(|slot| slot.trusted).count();
            part.size == size && part.present == count && trusted < count as usize
        })
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
        self.index.shard(id).find(id).map_or(0, |part| part.content_bytes(self.place.shared.block_size))
    }

    /// Grows whenever a block comes or goes.
    pub fn changes(&self) -> u64 {
        self.index.changes()
    }

    /// Content bytes here of what is pinned by name.
    pub fn pinned_bytes(&self) -> u64 {
        self.index.pinned_bytes()
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

    /// Takes note of a change in `StoreState::pins`.
    pub fn set_pinned(&self, id: &FileId, pinned: bool) {
        self.index.shard(id).set_pinned(id, pinned);
    }

    /// Counts by list number `list` from now on, on which nothing is yet.
    pub fn begin_list(&self, list: u64) {
        self.index.shards().for_each(|shard| shard.lock().begin_list(list));
    }

    /// The file version is on list number `list`.
    pub fn mark_listed(&self, id: &FileId, list: u64, has_checksums: bool) {
        let mut shard = self.index.shard(id);
        // Looked up with the lock held: a comparison is noted first, and told of then.
        let standing = Standing::listed(has_checksums, self.place.shared.proofs.get(id));
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
        let proof = self.place.shared.proofs.get(id);
        shard.set_compared(id, proof);
    }

    /// Adds what of the list is here.
    pub fn add_listed(&self, sum: &mut Sum) {
        self.index.shards().for_each(|shard| shard.lock().add_listed(sum));
    }

    /// Notes in the log what is known of the file version, some of which is here: how it compares with its checksum at the
    /// origin. A log that cannot be written to costs the next process another comparison.
    pub fn note_proof(&self, id: &FileId) {
        let Some(proof) = self.place.shared.proofs.get(id) else { return };
        if let Err(error) = self.log.append_compared(*id, proof) {
            tracing::debug!("cannot note that {id} was compared: {error}");
        }
    }

    /// Remembers, beyond this process, that the data file is given away whole, before it is. `None` when that cannot be
    /// noted. A file of one block goes as a whole anyway. Called while the file is pinned, so that nothing of it goes
    /// in between.
    pub fn note_lent(&self, id: &FileId) -> Option<()> {
        let mut shard = self.index.shard(id);
        let part = shard.find_mut(id)?;
        if part.lending == Lending::Noted || self.place.shared.block_size.count(part.size) <= 1 {
            return Some(());
        }
        part.lending = Lending::BeingNoted;
        drop(shard);
        if let Err(error) = self.log.append_lent(*id) {
            tracing::debug!("cannot note that the data file of {id} is lent: {error}");
            return None;
        }
        self.index.shard(id).find_mut(id)?.lending = Lending::Noted;
        Some(())
    }

    /// True when rewriting the log would pay.
    pub fn wants_compaction(&self) -> bool {
        self.log.wants_compaction()
    }

    /// Rewrites the log without what is gone.
    pub fn compact(&self) -> io::Result<()> {
        let keep = |record: &Record| match record {
            Record::File { id, .. } => self.index.shard(id).find(id).is_some(),
            Record::Lent { id } => self.is_lent(id),
            Record::Compared { id, proof } => self.place.shared.proofs.get(id) == Some(*proof),
            Record::Block { id, index, crc, .. } => self.index.shard(id).find(id).is_some_and(|part| {
                let slot = part.slot(*index);
                slot.state != BlockState::Absent && slot.crc == *crc
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
}

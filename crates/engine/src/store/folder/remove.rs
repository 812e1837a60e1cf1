//! Letting blocks go: the record first, then the room.

use std::sync::Arc;

use super::descriptors::stamp_of;
use super::{Folder, charge};
use crate::ids::FileId;
use crate::store::part::{BlockState, NO_RECORD, OpenFile};
use crate::store::{disk, layout};

/// Why blocks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// To make room, or because a person said so: never under a reader.
    Evict,
    /// Moved to another level: as an eviction, but counted elsewhere.
    Move,
    /// The content is wrong: at once. Readers of other blocks of the file keep theirs.
    Corrupt,
}

/// Blocks taken out of everybody's sight.
struct Claim {
    indices: Vec<u32>,
    size: u64,
    whole: bool,
    pinned: bool,
    open: Option<Arc<OpenFile>>,
}

impl Folder {
    /// Removes one block, or all; returns the bytes of the quota given back (0: it may not go, or is not here).
    pub fn remove(&self, id: &FileId, index: Option<u32>, why: Removal) -> u64 {
        let Some(mut claim) = self.claim_removal(id, index, why) else { return 0 };
        self.log_removal(id, &claim);
        if !claim.whole && !claim.pinned {
            self.punch(id, &claim);
        }
        let bytes = claim.indices.iter().map(|index| charge(self.length_of(claim.size, *index))).sum();
        let blocks = claim.indices.len() as u64;
        claim.open = None;
        let mut shard = self.index.shard(id);
        claim.indices.iter().for_each(|index| shard.set_state(id, *index, BlockState::Absent));
        drop(shard);
        self.finish(id);
        self.release(bytes);
        self.count_blocks(-(blocks as i64));
        self.count_removal(why, blocks, bytes);
        bytes
    }

    fn count_removal(&self, why: Removal, blocks: u64, bytes: u64) {
        let counters = &self.shared.counters;
        match why {
            Removal::Evict => {
                counters.evicted_blocks.inc_by(blocks);
                counters.evicted_bytes.inc_by(bytes);
            }
            Removal::Corrupt => drop(counters.corrupt.inc_by(blocks)),
            Removal::Move => {}
        }
    }

    fn claim_removal(&self, id: &FileId, index: Option<u32>, why: Removal) -> Option<Claim> {
        let mut shard = self.index.shard(id);
        let part = shard.find_mut(id).filter(|part| !part.leaving)?;
        let pinned = part.is_pinned();
        if why != Removal::Corrupt && (pinned || part.busy > 0) {
            return None;
        }
        let indices: Vec<u32> =
            part.present_indices().filter(|here| index.is_none_or(|index| *here == index)).collect();
        if indices.is_empty() {
            return None;
        }
        let whole = indices.len() == part.present as usize && part.busy == 0;
        part.begin_change();
        part.leaving = whole;
        let claim = Claim { size: part.size, whole, pinned, open: part.open.clone(), indices };
        claim.indices.iter().for_each(|index| shard.set_state(id, *index, BlockState::Moving));
        Some(claim)
    }

    /// A log that cannot be written to does not keep a block: after a restart its checksum fails.
    fn log_removal(&self, id: &FileId, claim: &Claim) {
        let result = if claim.whole {
            self.log.append_drop(*id, None, claim.indices.len() as u32)
        } else {
            claim.indices.iter().try_for_each(|index| self.log.append_drop(*id, Some(*index), 1))
        };
        if let Err(error) = result {
            tracing::debug!("cannot log the removal of blocks of {id}: {error}");
        }
    }

    fn punch(&self, id: &FileId, claim: &Claim) {
        let open = claim.open.clone().map_or_else(|| self.open_data(id, false), Ok);
        let punched = open.and_then(|open| {
            claim.indices.iter().try_for_each(|index| {
                disk::punch_hole(&open.file, self.offset_of(*index), charge(self.length_of(claim.size, *index)))
            })
        });
        if let Err(error) = punched
            && error.raw_os_error() == Some(libc::EOPNOTSUPP)
            && self.punches.swap(false, std::sync::atomic::Ordering::Relaxed)
        {
            tracing::info!("cache folder {}: no holes in files there, whole files are evicted", self.path.display());
        }
    }

    /// Ends one stay of a writer or remover: a part with nothing left goes, file and all.
    pub(super) fn finish(&self, id: &FileId) {
        let mut shard = self.index.shard(id);
        let Some(part) = shard.find_mut(id) else { return };
        part.busy -= 1;
        if part.busy > 0 {
            return;
        }
        if part.present > 0 {
            part.leaving = false;
            part.stamp = part.open.as_ref().map_or(part.stamp, |open| stamp_of(open).0);
            return;
        }
        let noted = !part.leaving && part.record != NO_RECORD;
        part.leaving = true;
        part.busy = 1;
        drop(shard);
        self.unlink(id, noted);
        self.promises.lock().forget(id);
        self.index.shard(id).remove(id);
    }

    fn unlink(&self, id: &FileId, noted: bool) {
        if noted {
            let _ = self.log.append_drop(*id, None, 0);
        }
        if let Err(error) = std::fs::remove_file(layout::data_file(&self.path, id))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!("cannot remove the data file of {id}: {error}");
        }
    }
}

//! Letting blocks go: the record first, then the room.
//!
//! A block is taken out of sight before its room is asked for, and a file is locked before its blocks are named to
//! another process (`lend`). So a hole never lies under a block that was named: either the lock was there first and is
//! seen here, or the block was out of sight first and is not named there.
//!
//! A lock ends with its descriptor, and a map does not. So a file that was ever given away whole (`Part::is_lent`) gets no
//! holes at all: it goes in one piece, by being unlinked, and its inode lives on for its maps.
//!
//! A block that is wrong goes although it is on loan. The file is marked then: who has it open sees that, and asks
//! again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::descriptors::stamp_of;
use super::{Folder, charge};
use crate::ids::FileId;
use crate::store::part::{BlockState, NO_RECORD, OpenFile};
use crate::store::{WrongFile, disk, layout};

/// A file that another process holds is left alone for so long before it is tried again.
const HELD_PAUSE_S: u32 = 10;

/// Why blocks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// To make room, or because a person said so: never under a reader, here or in another process, and never what is
    /// pinned by name.
    Evict,
    /// Moved to another level: never under a reader.
    Move,
    /// The content is wrong: at once. Readers of other blocks of the file keep theirs.
    Corrupt,
    /// The data file is gone: that is looked at once more when nobody else can make it.
    Missing,
    /// The same as `Corrupt`, but it came so from the origin: not the disk's fault.
    Wrong,
}

impl Removal {
    fn is_of_wrong_content(self) -> bool {
        matches!(self, Removal::Corrupt | Removal::Missing | Removal::Wrong)
    }
}

/// Blocks taken out of everybody's sight.
struct Claim {
    indices: Vec<u32>,
    /// Which of them are known to be right, in the same order.
    trusted: Vec<bool>,
    size: u64,
    whole: bool,
    pinned: bool,
    lent: bool,
    open: Option<Arc<OpenFile>>,
}

/// What is to be done about the room of blocks that go.
enum Room {
    /// Nothing: it goes with the file, or somebody here is reading the file.
    Left,
    /// A hole is made in this file.
    Hole(Arc<OpenFile>),
    /// Nothing: another process holds the file, and what it sees must not change.
    Held,
}

impl Folder {
    /// Removes one block, or all; returns the bytes of the quota given back (0: it may not go, or is not here).
    pub fn remove(&self, id: &FileId, index: Option<u32>, why: Removal) -> u64 {
        let closed = self.closed.read_recursive();
        let claim = if *closed { None } else { self.claim_removal(id, index, why) };
        let Some(mut claim) = claim else { return 0 };
        let room = self.room(id, &claim);
        let stays = match why {
            Removal::Evict | Removal::Move => matches!(room, Room::Held),
            Removal::Missing => !self.is_missing(id, &claim),
            Removal::Corrupt | Removal::Wrong => false,
        };
        if stays {
            self.unclaim_removal(id, &claim);
            return 0;
        }
        if why != Removal::Move {
            self.shared.proofs.forget(id);
            self.note_compared(id);
        }
        if why.is_of_wrong_content() {
            self.distrust(id, &claim);
        }
        self.log_removal(id, &claim);
        if let Room::Hole(open) = room {
            self.punch(&open, &claim);
        }
        let bytes = claim.indices.iter().map(|index| charge(self.length_of(claim.size, *index))).sum();
        let content = claim.indices.iter().map(|index| i64::from(self.length_of(claim.size, *index))).sum::<i64>();
        let blocks = claim.indices.len() as u64;
        claim.open = None;
        let mut shard = self.index.shard(id);
        claim.indices.iter().for_each(|index| shard.set_state(id, *index, BlockState::Absent));
        drop(shard);
        self.finish(id);
        if why.is_of_wrong_content() {
            self.shared.wrong.tell(WrongFile { id: *id, size: claim.size });
        }
        self.release(bytes);
        self.count_blocks(-(blocks as i64), -content);
        self.count_removal(why, blocks, bytes);
        bytes
    }

    /// Whether all of the claim is of a file that is not there. While somebody writes to it nobody can tell, and its blocks
    /// are compared before they are used.
    fn is_missing(&self, id: &FileId, claim: &Claim) -> bool {
        let path = layout::data_file(&self.path, id);
        let look = || std::fs::symlink_metadata(&path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        claim.whole && self.watch.during(look)
    }

    fn count_removal(&self, why: Removal, blocks: u64, bytes: u64) {
        let counters = &self.shared.counters;
        match why {
            Removal::Evict => {
                counters.evicted_blocks.inc_by(blocks);
                counters.evicted_bytes.inc_by(bytes);
            }
            Removal::Corrupt | Removal::Missing => drop(counters.corrupt.inc_by(blocks)),
            Removal::Move | Removal::Wrong => {}
        }
    }

    fn claim_removal(&self, id: &FileId, index: Option<u32>, why: Removal) -> Option<Claim> {
        let mut shard = self.index.shard(id);
        let part = shard.find_mut(id).filter(|part| !part.leaving)?;
        let pinned = part.is_pinned();
        if !why.is_of_wrong_content() && (pinned || part.busy > 0) || why == Removal::Evict && part.pinned {
            return None;
        }
        let indices: Vec<u32> =
            part.present_indices().filter(|here| index.is_none_or(|index| *here == index)).collect();
        if indices.is_empty() {
            return None;
        }
        let whole = indices.len() == part.present as usize && part.busy == 0;
        let lent = part.is_lent();
        if lent && !whole && !why.is_of_wrong_content() {
            return None;
        }
        part.begin_change();
        part.leaving = whole;
        let trusted = indices.iter().map(|index| part.slot(*index).trusted).collect();
        let claim = Claim { size: part.size, whole, pinned, lent, open: part.open.clone(), indices, trusted };
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

    fn room(&self, id: &FileId, claim: &Claim) -> Room {
        // The room of a large file that somebody has open would not come free.
        let stays = claim.lent && claim.whole && !self.is_small(claim.size);
        let punched = !claim.lent && !claim.whole && !claim.pinned && self.punches.load(Ordering::Relaxed);
        if !stays && !punched {
            return Room::Left;
        }
        match claim.open.clone().map_or_else(|| self.open_data(id, false), Ok) {
            Ok(open) if !self.watch.during(|| disk::is_held(&open.file)) => {
                if punched {
                    Room::Hole(open)
                } else {
                    Room::Left
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Room::Left,
            _ => Room::Held,
        }
    }

    /// Puts blocks that may not go back into sight.
    fn unclaim_removal(&self, id: &FileId, claim: &Claim) {
        let mut shard = self.index.shard(id);
        for (index, trusted) in claim.indices.iter().zip(&claim.trusted) {
            shard.set_state(id, *index, BlockState::Present);
            if let Some(part) = shard.find_mut(id) {
                // Of a file that was closed nothing is known before it is looked at again.
                part.slot_mut(*index).trusted = *trusted && claim.open.is_some();
            }
        }
        if let Some(part) = shard.find_mut(id) {
            part.held_until_s = self.now_s() + HELD_PAUSE_S;
        }
        drop(shard);
        self.finish(id);
    }

    /// Tells those who have the file on loan, in whatever process, that it is not what they took it for.
    fn distrust(&self, id: &FileId, claim: &Claim) {
        let mark = |open: Arc<OpenFile>| self.watch.during(|| disk::distrust(&open.file));
        match claim.open.clone().map_or_else(|| self.open_data(id, false), Ok).and_then(mark) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => tracing::warn!(
                "cannot mark the data file of {id}, of which something was wrong: {error}; who has it open reads on"
            ),
            _ => {}
        }
    }

    fn punch(&self, open: &OpenFile, claim: &Claim) {
        let punched = claim.indices.iter().try_for_each(|index| {
            let length = charge(self.length_of(claim.size, *index));
            self.watch.during(|| disk::punch_hole(&open.file, self.offset_of(*index), length))
        });
        if let Err(error) = punched
            && error.raw_os_error() == Some(libc::EOPNOTSUPP)
            && self.punches.swap(false, Ordering::Relaxed)
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
        if let Err(error) = self.watch.during(|| std::fs::remove_file(layout::data_file(&self.path, id)))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!("cannot remove the data file of {id}: {error}");
            self.note_stray();
        }
    }

    /// A data file that should be gone is still there. It would be filled again, and nobody would remember who has it
    /// mapped: so no holes are made any more, and the next opening looks for it.
    pub(super) fn note_stray(&self) {
        self.punches.store(false, Ordering::Relaxed);
        self.strays.store(true, Ordering::Relaxed);
    }
}

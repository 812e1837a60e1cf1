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

use super::contents::Contents;
use super::data_files::{DataFiles, stamp_of};
use super::place::{Place, charge};
use super::room::Room;
use crate::ids::FileId;
use crate::store::part::{BlockState, NO_RECORD, OpenFile};
use crate::store::{WrongFile, disk};

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
enum Fate {
    /// Nothing: it goes with the file, or somebody here is reading the file.
    Left,
    /// A hole is made in this file.
    Hole(Arc<OpenFile>),
    /// Nothing: another process holds the file, and what it sees must not change.
    Held,
}

/// Lets blocks and files go.
#[derive(Debug)]
pub struct Remover {
    pub(super) place: Arc<Place>,
    pub(super) room: Arc<Room>,
    pub(super) contents: Arc<Contents>,
    pub(super) files: Arc<DataFiles>,
}

impl Remover {
    /// Removes one block, or all; returns the bytes of the quota given back (0: it may not go, or is not here).
    pub fn remove(&self, id: &FileId, index: Option<u32>, why: Removal) -> u64 {
        let closed = self.contents.closed.read_recursive();
        let claim = if *closed { None } else { self.claim_removal(id, index, why) };
        let Some(mut claim) = claim else { return 0 };
        let fate = self.fate(id, &claim);
        let stays = match why {
            Removal::Evict | Removal::Move => matches!(fate, Fate::Held),
            Removal::Missing => !self.is_missing(id, &claim),
            Removal::Corrupt | Removal::Wrong => false,
        };
        if stays {
            self.unclaim_removal(id, &claim);
            return 0;
        }
        if why != Removal::Move {
            self.place.shared.proofs.forget(id);
            self.contents.note_compared(id);
        }
        if why.is_of_wrong_content() {
            self.distrust(id, &claim);
        }
        self.log_removal(id, &claim);
        if let Fate::Hole(open) = fate {
            self.punch(&open, &claim);
        }
        let bytes = claim.indices.iter().map(|index| charge(self.place.length_of(claim.size, *index))).sum();
        let content =
            claim.indices.iter().map(|index| i64::from(self.place.length_of(claim.size, *index))).sum::<i64>();
        let blocks = claim.indices.len() as u64;
        claim.open = None;
        let mut shard = self.contents.index.shard(id);
        claim.indices.iter().for_each(|index| shard.set_state(id, *index, BlockState::Absent));
        drop(shard);
        self.finish(id);
        if why.is_of_wrong_content() {
            self.place.shared.wrong.tell(WrongFile { id: *id, size: claim.size });
        }
        self.room.release(bytes);
        self.room.count_blocks(-(blocks as i64), -content);
        self.count_removal(why, blocks, bytes);
        bytes
    }

    /// Whether all of the claim is of a file that is not there. While somebody writes to it nobody can tell, and its blocks
    /// are compared before they are used.
    fn is_missing(&self, id: &FileId, claim: &Claim) -> bool {
        let path = self.place.data_file(id);
        let look = || std::fs::symlink_metadata(&path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        claim.whole && self.place.watch.during(look)
    }

    fn count_removal(&self, why: Removal, blocks: u64, bytes: u64) {
        let counters = &self.place.shared.counters;
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
        let mut shard = self.contents.index.shard(id);
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
            self.contents.log.append_drop(*id, None, claim.indices.len() as u32)
        } else {
            claim.indices.iter().try_for_each(|index| self.contents.log.append_drop(*id, Some(*index), 1))
        };
        if let Err(error) = result {
            tracing::debug!("cannot log the removal of blocks of {id}: {error}");
        }
    }

    fn fate(&self, id: &FileId, claim: &Claim) -> Fate {
        // The room of a large file that somebody has open would not come free.
        let stays = claim.lent && claim.whole && !self.room.is_small(claim.size);
        let punched = !claim.lent && !claim.whole && !claim.pinned && self.files.punches();
        if !stays && !punched {
            return Fate::Left;
        }
        match claim.open.clone().map_or_else(|| self.files.open_data(id, false), Ok) {
            Ok(open) if !self.place.watch.during(|| disk::is_held(&open.file)) => {
                if punched {
                    Fate::Hole(open)
                } else {
                    Fate::Left
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Fate::Left,
            _ => Fate::Held,
        }
    }

    /// Puts blocks that may not go back into sight.
    fn unclaim_removal(&self, id: &FileId, claim: &Claim) {
        let mut shard = self.contents.index.shard(id);
        for (index, trusted) in claim.indices.iter().zip(&claim.trusted) {
            shard.set_state(id, *index, BlockState::Present);
            if let Some(part) = shard.find_mut(id) {
                // Of a file that was closed nothing is known before it is looked at again.
                part.slot_mut(*index).trusted = *trusted && claim.open.is_some();
            }
        }
        if let Some(part) = shard.find_mut(id) {
            part.held_until_s = self.place.now_s() + HELD_PAUSE_S;
        }
        drop(shard);
        self.finish(id);
    }

    /// Tells those who have the file on loan, in whatever process, that it is not what they took it for.
    fn distrust(&self, id: &FileId, claim: &Claim) {
        let mark = |open: Arc<OpenFile>| self.place.watch.during(|| disk::distrust(&open.file));
        match claim.open.clone().map_or_else(|| self.files.open_data(id, false), Ok).and_then(mark) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => tracing::warn!(
                "cannot mark the data file of {id}, of which something was wrong: {error}; who has it open reads on"
            ),
            _ => {}
        }
    }

    fn punch(&self, open: &OpenFile, claim: &Claim) {
        for index in &claim.indices {
            let length = charge(self.place.length_of(claim.size, *index));
            if self.files.punch(open, self.place.offset_of(*index), length).is_err() {
                return;
            }
        }
    }

    /// Ends one stay of a writer or remover: a part with nothing left goes, file and all.
    pub fn finish(&self, id: &FileId) {
        let mut shard = self.contents.index.shard(id);
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
        self.files.unlink(id, noted);
        self.room.forget_promise(id);
        self.contents.index.shard(id).remove(id);
    }
}

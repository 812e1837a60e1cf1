//! Taking blocks in: data first, then the record, then the index.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::aside::Aside;
use super::contents::Contents;
use super::data_files::{DataFiles, stamp_of};
use super::place::{Place, charge};
use super::remove::Remover;
use super::room::Room;
use crate::ids::{FileId, FileKey};
use crate::store::counters as reasons;
use crate::store::disk;
use crate::store::part::{BlockState, NO_RECORD, OpenFile, Part};

/// A block on its way in.
pub struct Content<'a> {
    pub key: &'a FileKey,
    pub id: FileId,
    pub index: u32,
    pub parts: &'a [Bytes],
    pub length: u32,
    pub crc: u32,
}

/// Why a folder did not take a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is there already.
    Present,
    /// Another thread is at this block.
    InProgress,
    /// The disk failed; the folder is set aside if that may last.
    Disk(&'static str),
}

/// Takes blocks in.
#[derive(Debug)]
pub struct Writer {
    pub(super) place: Arc<Place>,
    pub(super) room: Arc<Room>,
    pub(super) aside: Arc<Aside>,
    pub(super) contents: Arc<Contents>,
    pub(super) files: Arc<DataFiles>,
    pub(super) remover: Arc<Remover>,
}

impl Writer {
    /// Writes a block for which `charge(length)` is reserved; gives the reservation back if it cannot.
    pub fn store(&self, content: &Content<'_>) -> Result<(), Fault> {
        let closed = self.contents.closed.read_recursive();
        let result = if *closed {
            Err(Fault::Disk(reasons::CLOSED))
        } else {
            self.claim(content).and_then(|open| self.fill(content, open))
        };
        match result {
            Ok(()) => {
                self.aside.note_well();
                self.room.count_blocks(1, i64::from(content.length));
            }
            Err(_) => self.room.release(charge(content.length)),
        }
        result
    }

    /// Makes the block's place ours.
    fn claim(&self, content: &Content<'_>) -> Result<Option<Arc<OpenFile>>, Fault> {
        let (id, size) = (content.id, content.key.size);
        let mut shard = self.contents.index.shard(&id);
        let part = shard.find_or_insert(&id, || {
            let mut part = Part::new(id, size, self.place.shared.block_size.count(size));
            part.pinned = self.place.shared.pins.contains(&id);
            part
        });
        if part.leaving {
            return Err(Fault::InProgress);
        }
        match part.slot(content.index).state {
            BlockState::Present => return Err(Fault::Present),
            BlockState::Moving => return Err(Fault::InProgress),
            BlockState::Absent => {}
        }
        part.begin_change();
        part.slot_mut(content.index).crc = content.crc;
        let open = part.open.clone();
        shard.set_state(&id, content.index, BlockState::Moving);
        Ok(open)
    }

    fn fill(&self, content: &Content<'_>, open: Option<Arc<OpenFile>>) -> Result<(), Fault> {
        let (id, index) = (&content.id, content.index);
        let begun = self.contents.log.begin_change();
        let opened = begun.and_then(|()| open.map_or_else(|| self.files.open_data(id, true), Ok));
        let written = opened.and_then(|open| {
            disk::write_parts(&open.file, content.parts, self.place.offset_of(index), &self.place.watch)?;
            self.note_file(content)?;
            self.contents.log.append_block(*id, index, content.length, content.crc)?;
            Ok(open)
        });
        match written {
            Ok(open) => {
                self.settle(content, &open);
                Ok(())
            }
            Err(error) => {
                self.unclaim(content);
                Err(self.fault(&error))
            }
        }
    }

    /// Writes the file record before the first block record of a part.
    fn note_file(&self, content: &Content<'_>) -> io::Result<()> {
        let id = &content.id;
        if self.contents.index.shard(id).find(id).is_some_and(|part| part.record != NO_RECORD) {
            return Ok(());
        }
        self.contents.log.append_file(*id, content.key, |record| {
            if let Some(part) = self.contents.index.shard(id).find_mut(id) {
                part.record = record;
            }
        })?;
        self.judge(content);
        Ok(())
    }

    /// Looks the new part up in the list that is counted by. The list is taken now that the part is there: who begins
    /// another one finds it.
    fn judge(&self, content: &Content<'_>) {
        let Some((list, catalogue)) = self.place.shared.list.read().current() else { return };
        if let Some(has_checksums) = catalogue.has_checksums(content.key) {
            self.contents.mark_listed(&content.id, list, has_checksums);
        }
    }

    fn settle(&self, content: &Content<'_>, open: &OpenFile) {
        let (id, index) = (&content.id, content.index);
        let mark = self.place.shared.policy.admitted(self.place.shared.now());
        let mut shard = self.contents.index.shard(id);
        shard.set_state(id, index, BlockState::Present);
        let Some(part) = shard.find_mut(id) else { return };
        let slot = part.slot_mut(index);
        slot.trusted = true;
        slot.set_mark(mark);
        part.busy -= 1;
        if part.busy == 0 {
            part.stamp = stamp_of(open).0;
        }
    }

    /// Undoes a claim after a failed write.
    fn unclaim(&self, content: &Content<'_>) {
        let (id, index) = (&content.id, content.index);
        let unlent = |part: &Part| if part.is_lent() { None } else { part.open.clone() };
        let open = self.contents.index.shard(id).find(id).filter(|_| self.files.punches()).and_then(unlent);
        if let Some(open) = open.filter(|open| !self.place.watch.during(|| disk::is_held(&open.file))) {
            // What was written of it takes room; a file system without holes keeps it until the file goes.
            let (offset, length) = (self.place.offset_of(index), charge(content.length));
            let _ = self.place.watch.during(|| disk::punch_hole(&open.file, offset, length));
        }
        self.contents.index.shard(id).set_state(id, index, BlockState::Absent);
        self.remover.finish(id);
    }

    pub fn fault(&self, error: &io::Error) -> Fault {
        let reason = match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => return Fault::Disk(reasons::NO_DESCRIPTOR),
            // Somebody removes the file whenever it is made (`open_data`): the disk is well.
            Some(libc::EBUSY) => return Fault::InProgress,
            Some(libc::ENOSPC) => reasons::DISK_FULL,
            Some(libc::EDQUOT) => reasons::DISK_QUOTA,
            Some(libc::EROFS) => reasons::READ_ONLY,
            _ => reasons::DISK_ERROR,
        };
        self.aside.set_aside(reason, &format!("{reason} ({error})"));
        Fault::Disk(reason)
    }
}

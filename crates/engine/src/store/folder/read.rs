//! Finding blocks and whole files, and making sure of their content before the first use.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::contents::Contents;
use super::data_files::{DataFiles, stamp_of};
use super::locked::LockedFile;
use super::place::Place;
use super::remove::{Removal, Remover};
use super::uses::Uses;
use crate::ids::FileId;
use crate::store::disk::{self, Stamp};
use crate::store::eviction::Use;
use crate::store::part::{BlockState, OpenFile};
use crate::store::{BlockHandle, WholeFile};

/// More than this is not verified while a reader waits for an open: the reader goes block by block instead.
const MAX_VERIFIED_AT_OPEN_BYTES: u64 = 64 << 20;

/// What a look into the index found.
enum Look {
    Miss,
    Ready(BlockPlace, Option<Use>),
    /// Here, but the data file is not open.
    Closed,
    /// Here, but its content must be verified first.
    Suspect(Suspect),
}

/// Where the bytes of a block are.
struct BlockPlace {
    open: Arc<OpenFile>,
    offset: u64,
    length: u32,
}

struct Suspect {
    open: Arc<OpenFile>,
    stamp: Stamp,
    crc: u32,
    length: u32,
}

/// What became of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    /// Dropped and counted.
    Corrupt,
    /// Not here, or it cannot be told now.
    Absent,
}

/// What a folder knows of a block without its disk.
pub enum FolderAnswer {
    Here(BlockHandle, Option<Use>),
    Absent,
    /// It has to be opened or verified first.
    After,
}

/// Finds blocks and files for readers of this process.
#[derive(Debug)]
pub struct Reader {
    pub(super) place: Arc<Place>,
    pub(super) uses: Arc<Uses>,
    pub(super) contents: Arc<Contents>,
    pub(super) files: Arc<DataFiles>,
    pub(super) remover: Arc<Remover>,
}

impl Reader {
    /// The block if it is open and verified.
    pub fn get_at_once(&self, id: &FileId, index: u32) -> FolderAnswer {
        match self.look(id, index, true) {
            Look::Miss => FolderAnswer::Absent,
            Look::Ready(place, fresh) => FolderAnswer::Here(place.into(), fresh),
            Look::Closed | Look::Suspect(_) => FolderAnswer::After,
        }
    }

    /// The block, verified. A use of it is noted, unless it only continues the last one.
    pub fn get(&self, id: &FileId, index: u32) -> Option<(BlockHandle, Option<Use>)> {
        // Twice at most in practice: open, then verify. The bound is for files that change all the time.
        for _ in 0..8 {
            match self.look(id, index, true) {
                Look::Miss => return None,
                Look::Ready(place, fresh) => return Some((place.into(), fresh)),
                Look::Closed if !self.reopen(id) => return None,
                Look::Suspect(suspect) if self.verify_content(id, index, &suspect) != Verdict::Good => return None,
                _ => {}
            }
        }
        None
    }

    fn look(&self, id: &FileId, index: u32, use_it: bool) -> Look {
        let mut shard = self.contents.index.shard(id);
        let Some(part) = shard.find_mut(id).filter(|part| part.holds(index)) else { return Look::Miss };
        let Some(open) = part.open.clone() else { return Look::Closed };
        let (stamp, _) = stamp_of(&open);
        part.check_stamp(stamp);
        part.recent = true;
        let length = self.place.length_of(part.size, index);
        let slot = part.slot_mut(index);
        if !slot.trusted {
            return Look::Suspect(Suspect { open, stamp, crc: slot.crc, length });
        }
        let fresh = if use_it { self.uses.note(id, index, slot) } else { None };
        Look::Ready(BlockPlace { open, offset: self.place.offset_of(index), length }, fresh)
    }

    /// Opens the data file; blocks of one that is gone are dropped, and false.
    fn reopen(&self, id: &FileId) -> bool {
        match self.files.open_data(id, false) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Nothing goes where it was removed in order, and made again since.
                self.remover.remove(id, None, Removal::Missing) == 0 && self.contents.holds_file(id)
            }
            Err(error) => {
                tracing::debug!("cannot open the data file of {id}: {error}");
                false
            }
        }
    }

    /// Reads the block and compares; the block is trusted then if the file did not change meanwhile.
    fn verify_content(&self, id: &FileId, index: u32, suspect: &Suspect) -> Verdict {
        match disk::checksum_of_file(&suspect.open.file, self.place.offset_of(index), suspect.length, &self.place.watch)
        {
            Ok(crc) if crc == suspect.crc => {
                self.trust(id, index, suspect);
                Verdict::Good
            }
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => Verdict::Absent,
            _ if self.remover.remove(id, Some(index), Removal::Corrupt) > 0 => Verdict::Corrupt,
            _ => Verdict::Absent,
        }
    }

    fn trust(&self, id: &FileId, index: u32, suspect: &Suspect) {
        let mut shard = self.contents.index.shard(id);
        let Some(part) = shard.find_mut(id) else { return };
        let same_file = part.open.as_ref().is_some_and(|open| Arc::ptr_eq(open, &suspect.open));
        let unchanged = part.busy > 0 || stamp_of(&suspect.open).0 == suspect.stamp;
        let slot = part.slot_mut(index);
        slot.trusted = same_file && unchanged && slot.state == BlockState::Present && slot.crc == suspect.crc;
    }

    /// The whole file version, if all of it is here. `None`, too, when more than 64 MiB of it are still unverified.
    pub fn whole_file(&self, id: &FileId, size: u64) -> Option<(WholeFile, Option<Use>)> {
        let mut locked: Option<LockedFile> = None;
        let mut used = None;
        for _ in 0..5 {
            match self.look_whole(id, size)? {
                Whole::Ready(open, fresh) => {
                    used = used.or(fresh);
                    match locked.take().filter(|locked| locked.is_of(&open)) {
                        Some(locked) => return self.contents.note_lent(id).map(|()| (locked.whole(size), used)),
                        // Only what is seen after the lock is sure to stay.
                        None => locked = Some(LockedFile::take(&self.place, &self.files, id, open, 2)?),
                    }
                }
                Whole::Closed if !self.reopen(id) => return None,
                Whole::Closed => {}
                Whole::Suspect(indices) => self.verify_all(id, indices)?,
            }
        }
        None
    }

    fn look_whole(&self, id: &FileId, size: u64) -> Option<Whole> {
        let count = self.place.shared.block_size.count(size);
        let mut shard = self.contents.index.shard(id);
        let part = shard.find_mut(id).filter(|part| part.size == size && part.present == count && count > 0)?;
        let Some(open) = part.open.clone() else { return Some(Whole::Closed) };
        let (stamp, length) = stamp_of(&open);
        part.check_stamp(stamp);
        part.recent = true;
        let suspects: Vec<u32> = part.present_indices().filter(|index| !part.slot(*index).trusted).collect();
        if !suspects.is_empty() {
            let bytes = suspects.len() as u64 * u64::from(self.place.shared.block_size.bytes());
            return (bytes.min(size) <= MAX_VERIFIED_AT_OPEN_BYTES).then_some(Whole::Suspect(suspects));
        }
        if length != size || part.busy > 0 {
            return None;
        }
        let fresh = self.uses.note_all(id, part);
        Some(Whole::Ready(open, fresh))
    }

    fn verify_all(&self, id: &FileId, indices: Vec<u32>) -> Option<()> {
        indices.into_iter().all(|index| self.verify_block(id, index, false) == Verdict::Good).then_some(())
    }

    /// Verifies one block; one that is trusted already only when `again`.
    pub fn verify_block(&self, id: &FileId, index: u32, again: bool) -> Verdict {
        for _ in 0..4 {
            match self.look(id, index, false) {
                Look::Miss => return Verdict::Absent,
                Look::Closed if !self.reopen(id) => return Verdict::Absent,
                Look::Closed => {}
                Look::Ready(..) if !again => return Verdict::Good,
                Look::Ready(BlockPlace { open, length, .. }, _) => {
                    let Some(crc) = self.contents.crc_of(id, index) else { return Verdict::Absent };
                    let stamp = stamp_of(&open).0;
                    return self.verify_content(id, index, &Suspect { open, stamp, crc, length });
                }
                Look::Suspect(suspect) => return self.verify_content(id, index, &suspect),
            }
        }
        Verdict::Absent
    }

    /// The content of a block with its checksum, for a copy; `None` when it is not here, or wrong.
    pub fn read_block(&self, id: &FileId, index: u32) -> Option<(Vec<u8>, u32)> {
        if self.verify_block(id, index, false) != Verdict::Good {
            return None;
        }
        let Look::Ready(place, _) = self.look(id, index, false) else { return None };
        let crc = self.contents.crc_of(id, index)?;
        let mut bytes = vec![0; place.length as usize];
        self.place.watch.during(|| place.open.file.read_exact_at(&mut bytes, place.offset)).ok()?;
        (crc32c::crc32c(&bytes) == crc).then_some((bytes, crc))
    }
}

impl From<BlockPlace> for BlockHandle {
    fn from(place: BlockPlace) -> Self {
        BlockHandle::new(place.open.file.clone(), place.offset, place.length, place.open)
    }
}

enum Whole {
    Ready(Arc<OpenFile>, Option<Use>),
    Closed,
    /// These blocks must be verified first.
    Suspect(Vec<u32>),
}

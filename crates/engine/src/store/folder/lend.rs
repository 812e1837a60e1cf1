//! Handing data files to other processes, on descriptions of their own that carry a lock. `remove` says why no hole can
//! lie under a block that is named here.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::Folder;
use super::descriptors::stamp_of;
use crate::budget::Permit;
use crate::ids::FileId;
use crate::own_files;
use crate::store::blocks::WholeFile;
use crate::store::eviction::Use;
use crate::store::loan::{BlockMap, Loan, LoanHold};
use crate::store::part::{Descriptor, Lending, OpenFile, Part};
use crate::store::{disk, layout};

/// Suspect blocks beside the wanted one that are verified while somebody waits for the answer.
const MAX_VERIFIED_BYTES: u64 = 8 << 20;

/// A data file on a locked description: the lock lives as long as any copy of the descriptor, in whatever process.
#[derive(Debug)]
pub(super) struct LockedFile {
    file: Arc<File>,
    descriptor: Descriptor,
    lent: Permit,
    /// Keeps the content in place here, so that eviction need not find the lock first.
    open: Arc<OpenFile>,
}

impl LockedFile {
    pub(super) fn is_of(&self, open: &Arc<OpenFile>) -> bool {
        Arc::ptr_eq(&self.open, open)
    }

    pub(super) fn whole(self, size: u64) -> WholeFile {
        WholeFile::new(self.file.clone(), size, Arc::new(self))
    }
}

impl Folder {
    /// The data file that is open as `open`, locked. What is in it must be looked at afterwards. `None` when there is no
    /// descriptor left, as many are given away as may be, or a hole is being made at this moment. `kept`: how many
    /// descriptors of this process it takes for as long as it is given away.
    pub(super) fn lock_file(&self, id: &FileId, open: Arc<OpenFile>, kept: u64) -> Option<LockedFile> {
        let lent = self.shared.lent.try_acquire(kept)?;
        let descriptor = self.descriptor(id)?;
        let lock = || -> io::Result<Option<File>> {
            let file = own_files::options().read(true).open(layout::data_file(&self.path, id))?;
            disk::hold(&file)?;
            Ok(disk::is_same_file(&file, &open.file)?.then_some(file))
        };
        let locked = self.watch.during(lock);
        match locked {
            Ok(file) => Some(LockedFile { file: Arc::new(file?), descriptor, lent, open }),
            Err(error) => {
                tracing::debug!("cannot lock the data file of {id}: {error}");
                None
            }
        }
    }

    /// True when somebody may have the data file of `id` mapped.
    pub fn is_lent(&self, id: &FileId) -> bool {
        self.index.shard(id).find(id).is_some_and(Part::is_lent)
    }

    /// Remembers, beyond this process, that the data file is given away whole, before it is. `None` when that cannot be
    /// noted. A file of one block goes as a whole anyway. Called while the file is pinned, so that nothing of it goes
    /// in between.
    pub(super) fn note_lent(&self, id: &FileId) -> Option<()> {
        let mut shard = self.index.shard(id);
        let part = shard.find_mut(id)?;
        if part.lending == Lending::Noted || self.shared.block_size.count(part.size) <= 1 {
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

    /// The data file for another process, with what of it is verified. Verifies `wanted` first, and a little more: the
    /// answer is waited for. The use is of `wanted`, if that is here.
    pub fn lend(&self, id: &FileId, size: u64, wanted: Option<u32>) -> Option<(Loan, Option<Use>)> {
        self.verify_some(id, wanted);
        let open = self.index.shard(id).find(id)?.open.clone()?;
        // The locked one is the borrower's, and closed here.
        let locked = self.lock_file(id, open, 1)?;
        self.name_blocks(id, size, wanted, locked)
    }

    fn verify_some(&self, id: &FileId, wanted: Option<u32>) {
        let here = |part: &Part| wanted.filter(|index| part.holds(*index)).or_else(|| part.present_indices().next());
        let Some(first) = self.index.shard(id).find(id).and_then(here) else { return };
        // Opens the file, too, though the block be trusted; a changed file makes all of them suspect.
        self.verify_block(id, first, false);
        let extra = (MAX_VERIFIED_BYTES / u64::from(self.shared.block_size.bytes())) as usize;
        for index in self.suspects(id, extra) {
            self.verify_block(id, index, false);
        }
    }

    fn suspects(&self, id: &FileId, most: usize) -> Vec<u32> {
        let shard = self.index.shard(id);
        let suspects = |part: &Part| {
            let suspects = part.present_indices().filter(|index| !part.slot(*index).trusted);
            suspects.take(most).collect::<Vec<_>>()
        };
        shard.find(id).map(suspects).unwrap_or_default()
    }

    fn name_blocks(
        &self,
        id: &FileId,
        size: u64,
        wanted: Option<u32>,
        locked: LockedFile,
    ) -> Option<(Loan, Option<Use>)> {
        let count = self.shared.block_size.count(size);
        let mut shard = self.index.shard(id);
        let part = shard.find_mut(id).filter(|part| part.size == size && !part.leaving)?;
        if !part.open.as_ref().is_some_and(|open| locked.is_of(open)) {
            return None;
        }
        let (stamp, length) = stamp_of(&locked.open);
        part.check_stamp(stamp);
        part.recent = true;
        let named = part.slots().iter().filter(|slot| slot.trusted).count() as u32;
        let trusted = part.present_indices().filter(|index| part.slot(*index).trusted);
        let blocks = BlockMap::near(wanted.unwrap_or(0), count, trusted);
        let whole = named == count && part.busy == 0 && length == size;
        let unverified = part.present > named;
        if blocks.is_empty() {
            return None;
        }
        let of_one = match wanted {
            Some(index) if part.holds(index) => self.note_use(id, index, part.slot_mut(index)),
            _ => None,
        };
        let fresh = of_one.or(if whole { self.note_use_of_all(id, part) } else { None });
        drop(shard);
        // A file that is not whole is only read, through the descriptor that carries the lock.
        let whole = whole && self.note_lent(id).is_some();
        let (file, descriptor) = (locked.file, locked.descriptor);
        let hold = LoanHold { pin: locked.open, _lent: locked.lent, afterwards: None };
        Some((Loan { file, blocks, whole, unverified, descriptor, hold }, fresh))
    }
}

//! Handing data files to other processes, with what of them is verified. `remove` says why no hole can lie under a block
//! that is named here.

use std::sync::Arc;

use super::contents::Contents;
use super::data_files::{DataFiles, stamp_of};
use super::locked::LockedFile;
use super::place::Place;
use super::read::Reader;
use super::uses::Uses;
use crate::ids::FileId;
use crate::store::eviction::Use;
use crate::store::loan::{BlockMap, Loan, LoanHold};
use crate::store::part::Part;

/// Suspect blocks beside the wanted one that are verified while somebody waits for the answer.
const MAX_VERIFIED_BYTES: u64 = 8 << 20;

/// Lends data files to other processes.
#[derive(Debug)]
pub struct Lender {
    pub(super) place: Arc<Place>,
    pub(super) uses: Arc<Uses>,
    pub(super) contents: Arc<Contents>,
    pub(super) files: Arc<DataFiles>,
    pub(super) reader: Arc<Reader>,
}

impl Lender {
    /// The data file for another process, with what of it is verified. Verifies `wanted` first, and a little more: the
    /// answer is waited for. The use is of `wanted`, if that is here.
    pub fn lend(&self, id: &FileId, size: u64, wanted: Option<u32>) -> Option<(Loan, Option<Use>)> {
        self.verify_some(id, wanted);
        let open = self.contents.index.shard(id).find(id)?.open.clone()?;
        // The locked one is the borrower's, and closed here.
        let locked = LockedFile::take(&self.place, &self.files, id, open, 1)?;
        self.name_blocks(id, size, wanted, locked)
    }

    fn verify_some(&self, id: &FileId, wanted: Option<u32>) {
        let here = |part: &Part| wanted.filter(|index| part.holds(*index)).or_else(|| part.present_indices().next());
        let Some(first) = self.contents.index.shard(id).find(id).and_then(here) else { return };
        // Opens the file, too, though the block be trusted; a changed file makes all of them suspect.
        self.reader.verify_block(id, first, false);
        let extra = (MAX_VERIFIED_BYTES / u64::from(self.place.shared.block_size.bytes())) as usize;
        for index in self.contents.suspects(id, extra) {
            self.reader.verify_block(id, index, false);
        }
    }

    fn name_blocks(
        &self,
        id: &FileId,
        size: u64,
        wanted: Option<u32>,
        locked: LockedFile,
    ) -> Option<(Loan, Option<Use>)> {
        let count = self.place.shared.block_size.count(size);
        let mut shard = self.contents.index.shard(id);
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
            Some(index) if part.holds(index) => self.uses.note(id, index, part.slot_mut(index)),
            _ => None,
        };
        let fresh = of_one.or(if whole { self.uses.note_all(id, part) } else { None });
        drop(shard);
        // A file that is not whole is only read, through the descriptor that carries the lock.
        let whole = whole && self.contents.note_lent(id).is_some();
        let (file, descriptor) = (locked.file, locked.descriptor);
        let hold = LoanHold { pin: locked.open, _lent: locked.lent, afterwards: None };
        Some((Loan { file, blocks, whole, unverified, descriptor, hold }, fresh))
    }
}

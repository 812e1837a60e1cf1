//! The folders of all levels together, and look-ups across them. `mover` says what may be moved where.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::errands::{Afterwards, Errand, Errands};
use super::eviction::Use;
use super::folder::{Folder, FolderAnswer, StoreState};
use super::loan::Loan;
use super::{AtOnce, BlockHandle, WholeFile};
use crate::config::Medium;
use crate::ids::FileId;

/// Folders of one medium.
#[derive(Debug)]
pub struct Level {
    pub medium: Medium,
    pub high: f64,
    pub low: f64,
    pub folders: Vec<Arc<Folder>>,
}

#[derive(Debug)]
pub struct Core {
    pub shared: Arc<StoreState>,
    /// Fastest first.
    pub levels: Vec<Level>,
    pub errands: OnceLock<Errands>,
    pub closed: AtomicBool,
}

impl Core {
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// All folders, fastest level first; none once closed.
    pub fn open_folders(&self) -> impl Iterator<Item = &Arc<Folder>> {
        let levels = if self.is_closed() { &[] } else { self.levels.as_slice() };
        levels.iter().flat_map(|level| &level.folders)
    }

    /// Those of them whose disk does not hang.
    pub fn usable_folders(&self) -> impl Iterator<Item = &Arc<Folder>> {
        self.open_folders().filter(|folder| !folder.place.watch.hangs())
    }

    /// True when every block of the file version is here, in whichever folder.
    pub fn holds_all(&self, id: &FileId) -> bool {
        let Some(count) = self.open_folders().find_map(|folder| folder.contents.block_count(id)) else { return false };
        let mut crcs = vec![None; count as usize];
        self.open_folders().for_each(|folder| folder.contents.checksums(id, &mut crcs));
        crcs.iter().all(Option::is_some)
    }

    /// The block as far as no disk has to be waited for.
    pub fn get_at_once(&self, id: &FileId, index: u32) -> AtOnce {
        for folder in self.usable_folders() {
            match folder.reader.get_at_once(id, index) {
                FolderAnswer::Absent => {}
                FolderAnswer::After => return AtOnce::After(folder.place.watch.clone()),
                FolderAnswer::Here(handle, fresh) => return AtOnce::Here(self.used(folder, id, index, handle, fresh)),
            }
        }
        AtOnce::Absent
    }

    pub fn get(&self, id: &FileId, index: u32) -> Option<BlockHandle> {
        self.usable_folders().find_map(|folder| {
            let (handle, fresh) = folder.reader.get(id, index)?;
            Some(self.used(folder, id, index, handle, fresh))
        })
    }

    /// What is used on a slower level may be worth a place on a faster one.
    fn used(
        &self,
        folder: &Arc<Folder>,
        id: &FileId,
        index: u32,
        handle: BlockHandle,
        fresh: Option<Use>,
    ) -> BlockHandle {
        if let Some(fresh) = fresh.filter(|_| folder.level > 0) {
            self.send(Errand::Promote { folder: folder.clone(), id: *id, index, fresh });
        }
        handle.on(&folder.place.watch)
    }

    pub fn whole_file(&self, id: &FileId, size: u64) -> Option<WholeFile> {
        self.usable_folders().find_map(|folder| {
            let Some((whole, fresh)) = folder.reader.whole_file(id, size) else {
                if folder.contents.wants_verification(id, size) {
                    self.send(Errand::Verify { folder: folder.clone(), id: *id });
                }
                return None;
            };
            let (Some(fresh), Some(errands)) = (fresh.filter(|_| folder.level > 0), self.errands.get()) else {
                return Some(whole);
            };
            let promotion = Errand::Promote { folder: folder.clone(), id: *id, index: 0, fresh };
            Some(whole.kept_by(|pin| Arc::new(Afterwards::new(pin, errands.clone(), promotion))))
        })
    }

    /// From the folder that has the wanted block, else from the one that has most of the file.
    pub fn lend(&self, id: &FileId, size: u64, wanted: Option<u32>) -> Option<Loan> {
        let has = |folder: &&Arc<Folder>| wanted.is_some_and(|index| folder.contents.may_contain(id, index));
        let most = || self.usable_folders().max_by_key(|folder| folder.contents.cached_bytes(id));
        let folder = self.usable_folders().find(has).or_else(most).filter(|folder| folder.contents.holds_file(id))?;
        let (mut loan, fresh) = folder.lender.lend(id, size, wanted)?;
        if loan.unverified {
            self.send(Errand::Verify { folder: folder.clone(), id: *id });
        }
        if let Some(fresh) = fresh.filter(|_| folder.level > 0) {
            let index = wanted.unwrap_or(0);
            // Nothing can leave its folder while it is lent.
            loan.hold.afterwards = Some(Errand::Promote { folder: folder.clone(), id: *id, index, fresh });
        }
        Some(loan)
    }

    /// Asks for something to be done in the background; forgotten when too much is waiting already.
    pub fn send(&self, errand: Errand) {
        if let Some(errands) = self.errands.get() {
            errands.send(errand);
        }
    }

    /// True when the end, which has waited since then for work on any disk, goes on without that.
    pub fn ends_in_vain(&self, since: Instant) -> bool {
        self.levels.iter().flat_map(|level| &level.folders).any(|folder| folder.place.watch.ends_in_vain(since))
    }
}

//! The block store: levels of cache folders with quotas, eviction, checksums and warm restart. Never fetches.
//!
//! Inside a cache folder each file version has one sparse data file with its blocks at their natural place (so the kernel
//! can be given a whole file as it is), and one log says which blocks are really there. See `docs/format/cache-folder.md`.
//!
//! - `record`, `log`, `lock`, `layout`, `disk`: what lies on the disk;
//! - `index`, `part`, `weights`, `pins`, `listed`: what is where, in memory;
//! - `folder/`: one folder, all of the above together;
//! - `watch`, `reach`: whether a disk hangs, and what lies there then; `closing`: the end, also then;
//! - `eviction/`: who gives way to whom, pure;
//! - `levels`, `placement`, `mover`, `listing`: several folders and levels;
//! - `blocks`, `loan`, `wrong`: what readers, here and in other processes, see of all that.

use std::any::Any;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::budget::Budgets;
use crate::config::{EvictionPolicy, LevelConfig};
use crate::error::{Error, Result};
use crate::ids::{BlockSize, FileId, FileKey};
use crate::metrics::Metrics;

mod blocks;
mod closing;
mod counters;
mod disk;
mod errands;
mod eviction;
mod folder;
mod index;
mod layout;
mod levels;
mod listed;
mod listing;
mod loan;
mod lock;
mod log;
mod log_reader;
mod mover;
mod open;
mod part;
mod pins;
mod placement;
mod proofs;
mod reach;
mod record;
mod watch;
mod weights;
mod wrong;

pub use blocks::{AtOnce, BlockHandle, Blocks, Proof, Put, WholeFile};
pub use counters::{DISK_HANGS, NO_ROOM, is_passing};
pub use disk::{WrongMark, is_distrusted, mark_of};
pub use listed::{Catalogue, Listed};
pub use listing::CachedFile;
pub use loan::{BlockMap, Loan, LoanHold};
pub use watch::DiskWatch;
pub use wrong::{TellWrong, WrongContent, WrongFile};

use self::folder::{Removal, Verdict};
use self::levels::Core;
use self::mover::Mover;

#[derive(Debug, Clone)]
pub struct StoreConfig {
    pub levels: Vec<LevelConfig>,
    pub block_size: BlockSize,
    pub policy: EvictionPolicy,
}

/// Use of one level.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LevelUsage {
    pub medium: crate::config::Medium,
    pub quota_bytes: u64,
    /// What counts against the quota: content in whole pages.
    pub used_bytes: u64,
    /// Bytes of files, exactly.
    pub content_bytes: u64,
    pub blocks: u64,
    /// Why one of its disks took nothing when it was last asked to, as one of the reasons that blocks are declined for.
    pub trouble: Option<&'static str>,
}

#[derive(Debug)]
pub struct Store {
    core: Arc<Core>,
    mover: Mover,
}

impl Store {
    /// Opens the folders, takes their locks (`Busy` names the holder), replays what earlier runs left.
    pub fn open(config: StoreConfig, budgets: Budgets, metrics: Metrics) -> Result<Arc<Self>> {
        let core = Arc::new(open::open(config, &budgets, &metrics)?);
        let mover = Mover::start(&core)?;
        Ok(Arc::new(Store { core, mover }))
    }

    /// The block, if here. A block read back from an earlier run, or whose file changed under us, is verified first;
    /// a corrupt one is dropped, counted, and `None`.
    pub fn get(&self, file: &FileId, index: u32) -> Option<BlockHandle> {
        self.core.get(file, index)
    }

    /// True when `get` would probably answer; no I/O, no verification, no recency.
    pub fn may_contain(&self, file: &FileId, index: u32) -> bool {
        self.core.usable_folders().any(|folder| folder.contents.may_contain(file, index))
    }

    /// How long a call on a disk may take before the disk counts as hanging: nothing is read from it or kept there
    /// then, until the call has returned.
    pub fn set_disk_patience(&self, patience: std::time::Duration) {
        self.core.open_folders().for_each(|folder| folder.place.watch.set_patience(patience));
    }

    /// Keeps a block whose content is `parts` in order.
    pub fn put(&self, key: &Arc<FileKey>, index: u32, parts: &[Bytes]) -> Put {
        let put = self.core.put(key, index, parts);
        if let Put::Declined(reason) = put {
            self.core.shared.counters.declined(reason);
        }
        put
    }

    /// The whole file version, if every block of it is here in one file. `None`, too, while more than 64 MiB of it are
    /// still to be verified after a restart; that is done in the background then.
    pub fn whole_file(&self, file: &FileId, size: u64) -> Option<WholeFile> {
        self.core.whole_file(file, size)
    }

    /// The data file of a file version for another process, with what of it is verified: by all means `wanted`, if that
    /// is here. `None` when nothing is. What is not verified yet is verified in the background.
    pub fn lend(&self, file: &FileId, size: u64, wanted: Option<u32>) -> Option<Loan> {
        self.core.lend(file, size, wanted)
    }

    /// How many files can be on loan at once, those that the kernel was given counted twice.
    pub fn most_loans(&self) -> u64 {
        self.core.shared.lent.limit()
    }

    /// Ends a loan: the file may be evicted again, once the other process has closed its descriptor.
    pub fn give_back(&self, hold: LoanHold) {
        drop(hold.pin);
        if let Some(errand) = hold.afterwards {
            self.core.send(errand);
        }
    }

    /// Pins a file version by name, whether or not it is here already, or ends that. What is pinned is not evicted,
    /// neither by pressure nor by `evict`; corrupt blocks still go. In memory only: a restart forgets it.
    pub fn set_pinned(&self, file: FileId, pinned: bool) {
        let tell = || self.core.open_folders().for_each(|folder| folder.contents.set_pinned(&file, pinned));
        self.core.shared.pins.set(file, pinned, tell);
    }

    /// The same for these file versions, and no others.
    pub fn set_all_pinned(&self, files: HashSet<FileId>) {
        let tell = |file: &FileId, pinned| {
            self.core.open_folders().for_each(|folder| folder.contents.set_pinned(file, pinned));
        };
        self.core.shared.pins.replace(files, tell);
    }

    /// Bytes here of what is pinned by name.
    pub fn pinned_bytes(&self) -> u64 {
        self.core.open_folders().map(|folder| folder.contents.pinned_bytes()).sum()
    }

    /// Bytes of this file version that are here.
    pub fn cached_bytes(&self, file: &FileId) -> u64 {
        self.core.open_folders().map(|folder| folder.contents.cached_bytes(file)).sum()
    }

    /// As long as this is the same, so is what `cached_bytes` and `proof` answer.
    pub fn changes(&self) -> u64 {
        let folders = self.core.open_folders().map(|folder| folder.contents.changes());
        folders.sum::<u64>() + self.core.shared.proofs.changes()
    }

    /// Drops all blocks of this file version that nobody is reading, unless it is pinned; returns the bytes given back.
    pub fn evict(&self, file: &FileId) -> u64 {
        self.core.usable_folders().map(|folder| folder.remover.remove(file, None, Removal::Evict)).sum()
    }

    /// Reads every block of the file version back and compares checksums; drops what is wrong. (good, corrupt) blocks.
    pub fn verify(&self, file: &FileId) -> (u64, u64) {
        self.verify_blocks(file, 0..u32::MAX)
    }

    /// `verify` for some of the blocks.
    pub fn verify_blocks(&self, file: &FileId, blocks: std::ops::Range<u32>) -> (u64, u64) {
        let (mut good, mut corrupt) = (0, 0);
        // Those that hang, too: who asks is told of every block, however long it takes.
        for folder in self.core.open_folders() {
            for index in folder.contents.indices(file).into_iter().filter(|index| blocks.contains(index)) {
                match folder.reader.verify_block(file, index, true) {
                    Verdict::Good => good += 1,
                    Verdict::Corrupt => corrupt += 1,
                    Verdict::Absent => {}
                }
            }
        }
        (good, corrupt)
    }

    pub fn usage(&self) -> Vec<LevelUsage> {
        let level = |level: &self::levels::Level| LevelUsage {
            medium: level.medium,
            quota_bytes: level.folders.iter().map(|folder| folder.room.quota_bytes).sum(),
            used_bytes: level.folders.iter().map(|folder| folder.room.used()).sum(),
            content_bytes: level.folders.iter().map(|folder| folder.room.held_bytes()).sum(),
            blocks: level.folders.iter().map(|folder| folder.room.blocks()).sum(),
            trouble: level.folders.iter().find_map(|folder| folder.aside.trouble()),
        };
        self.core.levels.iter().map(level).collect()
    }

    /// Writes what a restart needs and gives the folders free. Afterwards nothing is here and nothing is kept. `Timeout`
    /// names the folders whose disk hangs: those are closed once it answers, if this process lives then.
    pub fn close(&self) -> Result<()> {
        self.stop_mover();
        self.core.close()
    }

    fn stop_mover(&self) {
        let began = Instant::now();
        self.mover.stop(|| self.core.ends_in_vain(began));
    }

    pub fn block_size(&self) -> BlockSize {
        self.core.shared.block_size
    }

    /// True when another process may use `folder` (nobody holds its lock).
    pub fn is_free(folder: &Path) -> bool {
        lock::FolderLock::is_free(folder)
    }
}

impl Blocks for Store {
    fn get(&self, file: &FileId, index: u32, _size: u64) -> Option<BlockHandle> {
        self.get(file, index)
    }

    fn get_at_once(&self, file: &FileId, index: u32, _size: u64) -> AtOnce {
        self.core.get_at_once(file, index)
    }

    fn waits_in_vain(&self, since: std::time::Instant) -> bool {
        // What hung before was left alone.
        let mut hanging = self.core.open_folders().filter(|folder| folder.place.watch.has_hung_since(since));
        hanging.any(|folder| since.elapsed() > folder.place.watch.patience())
    }

    fn hanging(&self) -> Option<Error> {
        self.hanging_folders().first().map(|path| reach::hangs(path))
    }

    fn may_contain(&self, file: &FileId, index: u32) -> bool {
        self.may_contain(file, index)
    }

    fn expects(&self, file: &FileId, index: u32, _size: u64) -> bool {
        self.may_contain(file, index)
    }

    fn put(&self, key: &Arc<FileKey>, index: u32, parts: &[Bytes]) -> Put {
        self.put(key, index, parts)
    }

    fn room_now(&self) -> Option<u64> {
        let usable = self.core.usable_folders().inspect(|folder| folder.aside.look_again());
        usable.filter(|folder| folder.is_of_use()).map(|folder| folder.room.free()).max()
    }

    fn whole_file(&self, file: &FileId, size: u64) -> Option<WholeFile> {
        self.whole_file(file, size)
    }

    fn hold(&self, file: &FileId) -> Option<Box<dyn Any + Send + Sync>> {
        let files: Vec<_> = self.core.usable_folders().filter_map(|folder| folder.files.hold(file)).collect();
        if files.is_empty() { None } else { Some(Box::new(files)) }
    }

    fn is_whole(&self, file: &FileId, size: u64) -> bool {
        let present: u32 = self.core.usable_folders().map(|folder| folder.contents.present(file)).sum();
        present >= self.block_size().count(size)
    }

    fn crc32cs(&self, file: &FileId, size: u64) -> Option<Vec<u32>> {
        let mut crcs = vec![None; self.block_size().count(size) as usize];
        self.core.open_folders().for_each(|folder| folder.contents.checksums(file, &mut crcs));
        crcs.into_iter().collect()
    }

    fn proof(&self, file: &FileId) -> Option<Proof> {
        self.core.shared.proofs.get(file)
    }

    fn note_proof(&self, file: &FileId, proof: Proof) {
        for folder in self.core.open_folders().filter(|folder| folder.contents.holds_file(file)) {
            self.core.shared.proofs.note(*file, proof);
            folder.contents.note_compared(file);
            // What a disk that hangs does not learn costs the next process another comparison.
            if !folder.place.watch.hangs() {
                folder.contents.note_proof(file);
            }
        }
    }

    fn discard(&self, file: &FileId) {
        // From a disk that hangs, too, and last: what is removed there is out of sight before it is waited for.
        let (hanging, usable): (Vec<_>, Vec<_>) =
            self.core.open_folders().partition(|folder| folder.place.watch.hangs());
        for folder in usable.into_iter().chain(hanging) {
            folder.remover.remove(file, None, Removal::Wrong);
        }
    }

    fn on_wrong_content(&self, tell: TellWrong) {
        self.core.shared.wrong.listen(tell);
    }

    fn quota_bytes(&self) -> u64 {
        self.usage().iter().map(|level| level.quota_bytes).sum()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop_mover();
    }
}

//! All file versions that a store holds: listing, eviction by rule, scrubbing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use super::Store;
use super::closing::wait_unless;
use super::folder::{Folder, Removal, Verdict};
use super::listed::{Catalogue, Listed, Sum};
use crate::ids::{FileId, FileKey};

/// Reading a key from a log and looking it up costs about as much as making so many ids of a list.
const KEY_COST: u64 = 8;

/// One file version of which something is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedFile {
    pub id: FileId,
    pub key: FileKey,
    pub cached_bytes: u64,
}

/// Looks up what is in the folder, on a thread of its own, as keys are read from disk: one that hangs goes on with it when it
/// answers, and is not waited for. False when no thread can be started.
fn look_up(folder: &Arc<Folder>, list: u64, catalogue: &Arc<dyn Catalogue>) -> bool {
    if folder.contents.file_versions() == 0 {
        return true;
    }
    let (here, catalogue) = (folder.clone(), catalogue.clone());
    let (told, coming) = sync_channel(1);
    let work = move || {
        here.contents.look_up_all(list, &*catalogue);
        drop((here, catalogue));
        let _ = told.send(());
    };
    let started = std::thread::Builder::new().name("headrace-count".to_owned()).spawn(work).is_ok();
    if started {
        wait_unless(&coming, || folder.place.watch.hangs());
    }
    started
}

impl Store {
    /// Counts what of `catalogue`, a list of `count` files, is here from now on. Whichever are fewer are gone through once:
    /// the files of the list or the file versions that are here.
    pub fn count_by(&self, catalogue: Arc<dyn Catalogue>, count: u64, files: impl Iterator<Item = (FileId, bool)>) {
        let list = self.core.shared.list.read().number() + 1;
        self.core.open_folders().for_each(|folder| folder.contents.begin_list(list));
        // What comes from here on is looked up as it comes; what came before is found below.
        self.core.shared.list.write().replace(list, Some(catalogue.clone()));
        let here: u64 = self.core.open_folders().map(|folder| folder.contents.file_versions()).sum();
        if here.saturating_mul(KEY_COST) < count
            && self.core.open_folders().all(|folder| look_up(folder, list, &catalogue))
        {
            return;
        }
        for (id, has_checksums) in files {
            self.core.open_folders().for_each(|folder| folder.contents.mark_listed(&id, list, has_checksums));
        }
    }

    /// Lets go of the list; what comes from now on is not counted.
    pub fn count_by_none(&self) {
        let mut list = self.core.shared.list.write();
        let number = list.number();
        list.replace(number, None);
    }

    /// What of the list is here, as it was counted; each file version once.
    pub fn listed(&self) -> Listed {
        let mut sum = Sum::default();
        self.core.open_folders().for_each(|folder| folder.contents.add_listed(&mut sum));
        sum.finish(|id| self.core.open_folders().any(|folder| folder.contents.holds_whole(id)))
    }

    /// Shows every file version of which something is here, each once; reads keys from disk, so it takes a while. What
    /// lies on a disk that hangs is left out.
    pub fn files(&self, mut visit: impl FnMut(CachedFile)) {
        let mut parts: BTreeMap<FileId, Arc<Folder>> = BTreeMap::new();
        for folder in self.core.usable_folders() {
            parts.extend(folder.contents.ids().map(|id| (id, folder.clone())));
        }
        for (id, folder) in parts {
            let cached_bytes = self.cached_bytes(&id);
            if let Some(key) = folder.contents.key(&id).filter(|_| cached_bytes > 0) {
                visit(CachedFile { id, key, cached_bytes });
            }
        }
    }

    /// Drops all blocks, that nobody is reading, of the file versions that `chosen` answers true to; the bytes given
    /// back.
    pub fn evict_where(&self, mut chosen: impl FnMut(&FileKey) -> bool) -> u64 {
        let mut evicted = 0;
        for folder in self.core.open_folders() {
            for id in folder.contents.ids() {
                if folder.contents.key(&id).is_some_and(|key| chosen(&key)) {
                    evicted += folder.remover.remove(&id, None, Removal::Evict);
                }
            }
        }
        evicted
    }

    /// Verifies every block, reading at most `bytes_per_second`, as long as `goes_on` answers true; (good, corrupt)
    /// blocks. Blocks the calling thread all the while.
    pub fn scrub(&self, bytes_per_second: u64, goes_on: impl Fn() -> bool) -> (u64, u64) {
        let (mut good, mut corrupt) = (0, 0);
        let (start, mut read_bytes) = (Instant::now(), 0u64);
        for folder in self.core.open_folders() {
            for id in folder.contents.ids() {
                for index in folder.contents.indices(&id) {
                    if !goes_on() || self.core.is_closed() {
                        return (good, corrupt);
                    }
                    match folder.reader.verify_block(&id, index, true) {
                        Verdict::Good => good += 1,
                        Verdict::Corrupt => corrupt += 1,
                        Verdict::Absent => continue,
                    }
                    read_bytes += u64::from(self.core.shared.block_size.bytes());
                    let due = Duration::from_secs_f64(read_bytes as f64 / bytes_per_second.max(1) as f64);
                    // In short sleeps, so that `goes_on` is asked often enough.
                    std::thread::sleep(due.saturating_sub(start.elapsed()).min(Duration::from_millis(200)));
                }
            }
        }
        (good, corrupt)
    }
}

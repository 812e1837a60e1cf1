//! Room held for files that are just being filled, so that several at a time all become whole. Pure.
//!
//! Only whole files can be handed to the kernel. Without promises, files filled side by side would each take a part of
//! the last room and none be whole. A promise that is not used for a while (somebody reads just the ends of large files)
//! is forgotten.

use std::collections::HashMap;

use crate::ids::FileId;
use crate::store::eviction::Tick;

/// A promise, or the claim to the last room, lapses after so many accesses without a block of that file: some twenty
/// files of 1 GiB filled side by side are no reason yet.
const LAPSE_TICKS: Tick = 4096;

#[derive(Debug, Default)]
pub struct Promises {
    files: HashMap<FileId, Promise>,
    bytes: u64,
    /// The one file that may lie here by halves, to use the last room.
    spill: Option<(FileId, Tick)>,
}

#[derive(Debug)]
struct Promise {
    bytes: u64,
    last_use: Tick,
}

impl Promises {
    /// True when a block of `block_bytes` may use free room because all that is missing of its file fits, too; the rest
    /// is promised to it then.
    pub fn admit_whole(&mut self, id: &FileId, block_bytes: u64, missing: u64, free: u64, now: Tick) -> bool {
        if let Some(promise) = self.files.get_mut(id) {
            let kept = promise.bytes.min(block_bytes);
            self.bytes -= kept;
            promise.bytes -= kept;
            promise.last_use = now;
            if promise.bytes == 0 {
                self.files.remove(id);
            }
            return true;
        }
        if missing > self.unpromised(free, missing, now) {
            return false;
        }
        let bytes = missing.saturating_sub(block_bytes);
        if bytes > 0 {
            self.bytes += bytes;
            self.files.insert(*id, Promise { bytes, last_use: now });
        }
        true
    }

    /// True when the block may use free room that is promised to nobody, though its file will not be whole.
    pub fn admit_spill(&mut self, id: &FileId, block_bytes: u64, free: u64, now: Tick) -> bool {
        let lapsed = |last_use: Tick| now.saturating_sub(last_use) > LAPSE_TICKS;
        let taken = self.spill.is_some_and(|(other, last_use)| other != *id && !lapsed(last_use));
        let admitted = !taken && block_bytes <= self.unpromised(free, block_bytes, now);
        if admitted {
            self.spill = Some((*id, now));
        }
        admitted
    }

    /// Nothing of the file is here any more.
    pub fn forget(&mut self, id: &FileId) {
        self.bytes -= self.files.remove(id).map_or(0, |promise| promise.bytes);
        self.spill = self.spill.filter(|(spill, _)| spill != id);
    }

    /// Free room that is promised to nobody; old promises are given up first where that helps to find `wanted`.
    pub fn unpromised(&mut self, free: u64, wanted: u64, now: Tick) -> u64 {
        if free >= wanted && free < self.bytes.saturating_add(wanted) {
            self.files.retain(|_, promise| now.saturating_sub(promise.last_use) <= LAPSE_TICKS);
            self.bytes = self.files.values().map(|promise| promise.bytes).sum();
        }
        free.saturating_sub(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> FileId {
        FileId([number; 16])
    }

    #[test]
    fn files_side_by_side_become_whole_one_spills_others_wait() {
        let (mut promises, mut free, mut here) = (Promises::default(), 10, [0; 4]);
        for _ in 0..4 {
            for number in 0..4u8 {
                let missing = 4 - here[usize::from(number)];
                let admitted = promises.admit_whole(&id(number), 1, missing, free, 0)
                    || promises.admit_spill(&id(number), 1, free, 0);
                if admitted {
                    free -= 1;
                    here[usize::from(number)] += 1;
                }
            }
        }
        assert_eq!((here, free), ([4, 4, 2, 0], 0));
        assert_eq!((promises.bytes, promises.files.len()), (0, 0));
    }

    #[test]
    fn promise_without_use_lapses() {
        let mut promises = Promises::default();
        assert!(promises.admit_whole(&id(1), 1, 10, 10, 0));
        assert!(!promises.admit_whole(&id(2), 1, 5, 9, LAPSE_TICKS));
        assert!(promises.admit_whole(&id(2), 1, 5, 9, LAPSE_TICKS + 1));
    }

    #[test]
    fn forgotten_file_gives_its_promise_back() {
        let mut promises = Promises::default();
        assert!(promises.admit_whole(&id(1), 1, 10, 10, 0));
        promises.forget(&id(1));
        assert!(promises.admit_whole(&id(2), 1, 10, 10, 0));
    }
}

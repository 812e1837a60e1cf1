//! The place of a new block, and the blocks that give way to it.

use std::sync::Arc;

use bytes::Bytes;

use super::counters as reasons;
use super::errands::Errand;
use super::folder::{Content, Fault, Folder, MAX_BLOCKS, Removal};
use super::levels::Core;
use super::{Put, disk};
use crate::ids::{FileId, FileKey, Version};

/// Tries to find a victim for one block; what is pinned or was just taken by another thread costs one.
const MAX_VICTIMS: usize = 64;
/// Longest path, dataset name or entity tag that a record can hold.
const MAX_NAME_BYTES: usize = u16::MAX as usize;

impl Core {
    /// Keeps a block if a folder takes it.
    pub fn put(&self, key: &FileKey, index: u32, parts: &[Bytes]) -> Put {
        let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if let Some(reason) = self.objection(key, index, length) {
            return Put::Declined(reason);
        }
        let id = key.id();
        if self.usable_folders().any(|folder| folder.contents.may_contain(&id, index)) {
            return Put::Present;
        }
        self.shared.tick(&id, index);
        let content = Content { key, id, index, parts, length: length as u32, crc: disk::checksum(parts) };
        self.place(&content)
    }

    /// What is wrong with this block as such.
    fn objection(&self, key: &FileKey, index: u32, length: u64) -> Option<&'static str> {
        let block_size = self.shared.block_size;
        let etag_bytes = match &key.version {
            Version::Etag(tag) => tag.len(),
            Version::ModifiedNs(_) | Version::Stamped { .. } => 0,
        };
        if self.is_closed() {
            Some(reasons::CLOSED)
        } else if self.levels.iter().all(|level| level.folders.is_empty()) {
            Some(reasons::NO_CACHE)
        } else if key.size.div_ceil(u64::from(block_size.bytes())) > MAX_BLOCKS {
            Some(reasons::TOO_LARGE)
        } else if length == 0 || block_size.range(index, key.size).length() != length {
            Some(reasons::WRONG_LENGTH)
        } else if [key.path.len(), key.dataset.len(), etag_bytes].into_iter().any(|bytes| bytes > MAX_NAME_BYTES) {
            Some(reasons::KEY_TOO_LONG)
        } else {
            None
        }
    }

    /// Free room for whole files first, then free room at all, then room that the policy takes from others.
    fn place(&self, content: &Content<'_>) -> Put {
        let mut obstacle = None;
        let (id, size) = (&content.id, content.key.size);
        for attempt in [Attempt::WholeFile, Attempt::AnyRoom, Attempt::MakeRoom] {
            for folder in self.candidates(id, attempt) {
                let admitted = match attempt {
                    Attempt::WholeFile => folder.admits_whole(id, size, content.length),
                    Attempt::AnyRoom => folder.room.admits_spill(id, content.length),
                    Attempt::MakeRoom => self.make_room(folder, disk::allocated(content.length)),
                };
                if !admitted || !folder.room.reserve(disk::allocated(content.length)) {
                    continue;
                }
                match folder.writer.store(content) {
                    Ok(()) => {
                        self.watch_level(folder);
                        return Put::Stored;
                    }
                    Err(Fault::Present) => return Put::Present,
                    Err(Fault::InProgress) => return Put::Declined(reasons::IN_PROGRESS),
                    Err(Fault::Disk(reason)) => obstacle = Some(reason),
                }
            }
        }
        let whole = || {
            let all = |what: fn(&Arc<Folder>) -> bool| self.open_folders().all(what);
            match () {
                () if all(|folder| folder.place.watch.hangs()) => reasons::DISK_HANGS,
                () if all(|folder| !folder.is_of_use()) => reasons::SET_ASIDE,
                () => reasons::NO_ROOM,
            }
        };
        Put::Declined(obstacle.unwrap_or_else(whole))
    }

    /// The folders to try: that which holds blocks of the file already, then the fastest level, then the emptiest.
    fn candidates(&self, id: &FileId, attempt: Attempt) -> Vec<&Arc<Folder>> {
        let first = if attempt == Attempt::MakeRoom { self.levels.len().saturating_sub(1) } else { 0 };
        let mut folders: Vec<_> =
            self.open_folders().filter(|folder| folder.level >= first && folder.is_of_use()).collect();
        if folders.len() > 1 {
            folders.sort_by(|a, b| {
                let rank = |folder: &Folder| (!folder.contents.holds_file(id), folder.level);
                rank(a).cmp(&rank(b)).then(b.room.free_share().total_cmp(&a.room.free_share()))
            });
        }
        folders
    }

    /// Evicts from a folder of the last level until `bytes` are free, as far as the policy gives blocks up. Where it
    /// gives up none, the last room is left to the files that it is meant for.
    pub fn make_room(&self, folder: &Folder, bytes: u64) -> bool {
        if bytes > folder.room.quota_bytes {
            return false;
        }
        for _ in 0..MAX_VICTIMS {
            let Some(victim) = folder.victim(self.shared.now(), false) else { return false };
            if folder.room.has_room(bytes) {
                return true;
            }
            folder.remover.remove(&victim.id, victim.index, Removal::Evict);
        }
        folder.room.has_room(bytes)
    }

    fn watch_level(&self, folder: &Arc<Folder>) {
        if folder.room.used() as f64 > self.levels[folder.level].high * folder.room.quota_bytes as f64 {
            self.send(Errand::Relieve);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    WholeFile,
    AnyRoom,
    MakeRoom,
}

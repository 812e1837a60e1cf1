//! How the file versions that are here compare with the origin's own checksum. Knows no folders: what is to be known after
//! a start, they note in their logs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::blocks::Proof;
use crate::ids::FileId;
use crate::sync::Mutex;

const SHARDS: usize = 16;

/// What is known, by file version; about 30 bytes each.
#[derive(Debug, Default)]
pub struct Proofs {
    shards: [Mutex<HashMap<FileId, Proof>>; SHARDS],
    changes: AtomicU64,
}

impl Proofs {
    pub fn get(&self, id: &FileId) -> Option<Proof> {
        self.shard(id).lock().get(id).copied()
    }

    pub fn note(&self, id: FileId, proof: Proof) {
        self.shard(&id).lock().insert(id, proof);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Some of the file is gone, so nothing is known of what will come in its place.
    pub fn forget(&self, id: &FileId) {
        self.shard(id).lock().remove(id);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Forgets what `keep` answers false to.
    pub fn retain(&self, mut keep: impl FnMut(&FileId) -> bool) {
        self.shards.iter().for_each(|shard| shard.lock().retain(|id, _| keep(id)));
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Grows whenever something becomes known or is forgotten.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn shard(&self, id: &FileId) -> &Mutex<HashMap<FileId, Proof>> {
        // Ids are digests.
        &self.shards[usize::from(id.0[0]) % SHARDS]
    }
}

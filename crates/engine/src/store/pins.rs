//! File versions that are pinned by name: pressure does not evict them. In memory only; whoever pins says so again after
//! a restart. Knows no folders.

use std::collections::HashSet;

use crate::ids::FileId;
use crate::sync::{Mutex, RwLock};

/// The pinned file versions, whether or not anything of them is here.
#[derive(Debug, Default)]
pub struct Pins {
    ids: RwLock<HashSet<FileId>>,
    changing: Mutex<()>,
}

impl Pins {
    pub fn contains(&self, id: &FileId) -> bool {
        self.ids.read().contains(id)
    }

    pub fn all(&self) -> Vec<FileId> {
        self.ids.read().iter().copied().collect()
    }

    /// Pins or unpins, and `tell`s if that was a change. One change at a time, so that all who are told agree.
    pub fn set(&self, id: FileId, pinned: bool, tell: impl FnOnce()) {
        let _one_at_a_time = self.changing.lock();
        let changed = if pinned { self.ids.write().insert(id) } else { self.ids.write().remove(&id) };
        if changed {
            tell();
        }
    }
}

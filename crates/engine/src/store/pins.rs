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

    /// Pins `wanted` and no others, and `tell`s of each change.
    pub fn replace(&self, wanted: HashSet<FileId>, tell: impl Fn(&FileId, bool)) {
        let _one_at_a_time = self.changing.lock();
        let before = std::mem::replace(&mut *self.ids.write(), wanted);
        // Nobody waits to write, so who is told may ask `contains`.
        let wanted = self.ids.read();
        before.difference(&wanted).for_each(|id| tell(id, false));
        wanted.difference(&before).for_each(|id| tell(id, true));
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

//! Uses of blocks, as the eviction policy sees them.

use std::sync::Arc;

use super::place::Place;
use super::room::Room;
use crate::ids::FileId;
use crate::store::eviction::{self, Use};
use crate::store::part::{Part, Slot};

/// Notes uses of the blocks of one folder.
#[derive(Debug)]
pub struct Uses {
    pub(super) place: Arc<Place>,
    pub(super) room: Arc<Room>,
}

impl Uses {
    /// A reader uses this block; `None` when that only continues the last use.
    pub fn note(&self, id: &FileId, index: u32, slot: &mut Slot) -> Option<Use> {
        let (mark, now) = (slot.mark(), self.place.shared.now());
        if eviction::is_same_access(mark, now, self.room.blocks()) {
            return None;
        }
        let used = self.place.shared.policy.used(mark, self.place.shared.tick(id, index));
        slot.set_mark(used);
        Some(Use { mark: used, gap: mark.idle(now) })
    }

    /// The same for all blocks of a file.
    pub fn note_all(&self, id: &FileId, part: &mut Part) -> Option<Use> {
        let (mark, now) = (part.mark(), self.place.shared.now());
        if eviction::is_same_access(mark, now, self.room.blocks()) {
            return None;
        }
        let policy = &self.place.shared.policy;
        part.slots_mut().iter_mut().enumerate().for_each(|(index, slot)| {
            slot.set_mark(policy.used(slot.mark(), self.place.shared.tick(id, index as u32)));
        });
        Some(Use { mark: part.mark(), gap: mark.idle(now) })
    }
}

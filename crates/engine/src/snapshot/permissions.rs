//! Rights to read: each different owner, group and mode once, and which of them an entry has.

use std::collections::HashMap;

use super::layout::{u16_at, u32_at};
use crate::origin::Permissions;

pub(super) const PERMISSION_BYTES: usize = 16;
pub(super) const PERMISSION_OF_NODE_BYTES: usize = 2;

/// The place of an entry's permissions in the table, counted from 1; 0 where the origin tells none.
pub(super) type PermissionId = u16;

/// The different permissions of a dataset while it is listed.
#[derive(Debug, Default)]
pub(super) struct PermissionTable {
    all: Vec<Permissions>,
    places: HashMap<Permissions, PermissionId>,
    /// What `add` gave for each leaf that has an id, by number; shorter than the leaves where the last ones have none.
    of_leaves: Vec<PermissionId>,
}

impl PermissionTable {
    /// The place of these; `None` when there are more than the format can tell apart.
    pub(super) fn add(&mut self, permissions: Permissions) -> Option<PermissionId> {
        if let Some(&known) = self.places.get(&permissions) {
            return Some(known);
        }
        let id = PermissionId::try_from(self.all.len() + 1).ok()?;
        self.all.push(permissions);
        self.places.insert(permissions, id);
        Some(id)
    }

    /// Notes what leaf number `leaf` has. Costs nothing for the leaves of origins that tell no permissions.
    pub(super) fn set_leaf(&mut self, leaf: usize, id: PermissionId) {
        if id != 0 {
            self.of_leaves.resize(leaf, 0);
            self.of_leaves.push(id);
        }
    }

    pub(super) fn of_leaf(&self, leaf: usize) -> PermissionId {
        self.of_leaves.get(leaf).copied().unwrap_or(0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The bytes of the section.
    pub(super) fn encode(&self) -> Vec<u8> {
        let words = self.all.iter().flat_map(|each| [u32::from(each.mode), each.uid, each.gid, 0]);
        words.flat_map(u32::to_le_bytes).collect()
    }
}

/// What entry number `index` has, by the two sections; `None` where that is not known.
pub(super) fn permissions_of(table: &[u8], of_nodes: &[u8], index: u32) -> Option<Permissions> {
    let id = usize::from(u16_at(of_nodes, index as usize * PERMISSION_OF_NODE_BYTES));
    let entry: &[u8; PERMISSION_BYTES] = table.get(id.checked_sub(1)? * PERMISSION_BYTES..)?.first_chunk()?;
    Some(Permissions::of(u32_at(entry, 0), u32_at(entry, 4), u32_at(entry, 8)))
}

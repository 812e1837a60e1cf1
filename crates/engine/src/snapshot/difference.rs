//! The changes between two snapshots: counted, carried over into inodes, and listed for caches that must forget.

use super::layout::INODE_MAX;
use super::mapped::Snapshot;
use super::walk::{Side, side_by_side};
use super::{NodeIndex, ROOT_INODE};
use crate::error::{Error, ErrorKind, Result};

/// What differs between two snapshots, in files and links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    pub added: u64,
    pub changed: u64,
    pub removed: u64,
    pub unchanged: u64,
}

/// What became of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// There was nothing of this name before: a remembered "no such file" is wrong now.
    Added,
    /// The name leads to another inode now.
    Replaced,
    /// The name is gone.
    Removed,
    /// The same inode with another time or owner or mode (or, a directory, other children): remembered attributes are wrong now.
    Touched,
}

/// One name that a cache must forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    /// The inode of the directory that holds the name: in the old snapshot, or for `Added` in the new one.
    pub parent_inode: u64,
    pub name: Box<[u8]>,
    /// What the name led to before; `None` for `Added`.
    pub old_inode: Option<u64>,
}

/// Whether an entry that both snapshots have is still the same one, and so keeps its inode.
fn is_same(old: &Snapshot, left: NodeIndex, new: &Snapshot, right: NodeIndex) -> bool {
    let Some((before, after)) = old.record(left).zip(new.record(right)) else { return false };
    if old.is_directory(left) || new.is_directory(right) {
        return old.is_directory(left) && new.is_directory(right);
    }
    before.origin() == after.origin()
        && old.mounts().get(usize::from(before.origin())) == new.mounts().get(usize::from(after.origin()))
        && before.same_content(old.text(), &after, new.text())
}

/// The inodes of `new` as the successor of `previous`, the next unused one, and what changed.
pub(super) fn carry_inodes(previous: &Snapshot, new: &Snapshot) -> Result<(Vec<u64>, u64, Difference)> {
    let mut inodes = vec![0; new.nodes() as usize];
    inodes[0] = ROOT_INODE;
    let mut difference = Difference::default();
    side_by_side(previous, new, &mut |side, _| {
        if let Side::Both(left, right) = side
            && is_same(previous, left, new, right)
        {
            inodes[right.0 as usize] = previous.inode(left).unwrap_or(0);
        }
        difference.count(previous, new, side);
    });
    let mut next_inode = previous.next_inode();
    for inode in inodes.iter_mut().filter(|inode| **inode == 0) {
        *inode = next_inode;
        next_inode = next_inode.saturating_add(1);
    }
    if next_inode > INODE_MAX {
        return Err(Error::new(ErrorKind::Unsupported, "all inodes of this dataset have been used"));
    }
    Ok((inodes, next_inode, difference))
}

impl Difference {
    /// Counts what one visit of `side_by_side` means in files.
    fn count(&mut self, old: &Snapshot, new: &Snapshot, side: Side) {
        match side {
            Side::Old(left) => self.removed += u64::from(!old.is_directory(left)),
            Side::New(right) => self.added += u64::from(!new.is_directory(right)),
            Side::Both(left, right) => match (old.is_directory(left), new.is_directory(right)) {
                (true, true) => {}
                (true, false) => self.added += 1,
                (false, true) => self.removed += 1,
                (false, false) if is_same(old, left, new, right) => self.unchanged += 1,
                (false, false) => self.changed += 1,
            },
        }
    }

    /// What differs from `old` to `new`.
    pub fn between(old: &Snapshot, new: &Snapshot) -> Self {
        let mut difference = Difference::default();
        side_by_side(old, new, &mut |side, _| difference.count(old, new, side));
        difference
    }
}

/// Visits every name that leads elsewhere, or nowhere, or tells other attributes, in `new` than in `old`: what a kernel
/// or a client that has seen `old` must forget. A directory that is gone is followed by everything that was below it.
pub fn difference_inodes(old: &Snapshot, new: &Snapshot, visit: &mut dyn FnMut(Change)) {
    side_by_side(old, new, &mut |side, name| {
        if let Some(change) = change_of(old, new, side, name) {
            visit(change);
        }
    });
}

fn change_of(old: &Snapshot, new: &Snapshot, side: Side, name: &[u8]) -> Option<Change> {
    let change = |snapshot: &Snapshot, index: NodeIndex, kind, old_inode| {
        let parent_inode = snapshot.inode(NodeIndex(snapshot.record(index)?.parent))?;
        Some(Change { kind, parent_inode, name: name.into(), old_inode })
    };
    match side {
        Side::Old(left) => change(old, left, ChangeKind::Removed, old.inode(left)),
        Side::New(right) => change(new, right, ChangeKind::Added, None),
        Side::Both(left, right) => {
            let (before, after) = (old.node(left)?, new.node(right)?);
            let kind = if before.inode != after.inode {
                ChangeKind::Replaced
            } else if (before.mtime_ns, before.children, before.subdirectories, before.permissions)
                != (after.mtime_ns, after.children, after.subdirectories, after.permissions)
            {
                ChangeKind::Touched
            } else {
                return None;
            };
            change(old, left, kind, Some(before.inode))
        }
    }
}

//! Goes through a directory, a whole snapshot, or two side by side. Each directory is visited once; memory is what the tree is wide.

use super::mapped::Snapshot;
use super::names::NameCursor;
use super::{NodeIndex, NodeKind};

impl Snapshot {
    /// Visits the children of `directory` in name order from the `skip`-th on, until `visit` answers false.
    pub fn children(&self, directory: NodeIndex, skip: u32, visit: &mut dyn FnMut(NodeIndex, &[u8]) -> bool) {
        let Some(mut children) = self.children_from(directory, skip) else { return };
        while let Some((index, name)) = children.next() {
            if !visit(index, name) {
                return;
            }
        }
    }

    pub(super) fn children_from(&self, directory: NodeIndex, skip: u32) -> Option<Children<'_>> {
        let range = self.child_range(directory, &self.record(directory)?)?;
        let start = range.start.checked_add(skip).filter(|start| *start < range.end)?;
        let names = self.names().cursor_at(start)?;
        Some(Children { snapshot: self, names, directory, next: start, end: range.end })
    }

    /// Visits everything below `directory` (not itself), a directory before its content, until `visit` answers false.
    /// Calls with the index and the name.
    pub fn walk(&self, directory: NodeIndex, visit: &mut dyn FnMut(NodeIndex, &[u8]) -> bool) {
        let mut pending = vec![directory];
        let mut go_on = true;
        while let Some(directory) = pending.pop() {
            let below = pending.len();
            self.children(directory, 0, &mut |index, name| {
                if self.is_directory(index) {
                    pending.push(index);
                }
                go_on = visit(index, name);
                go_on
            });
            if !go_on {
                return;
            }
            pending[below..].reverse();
        }
    }

    /// The inodes of all directories, the root's first.
    pub fn directory_inodes(&self) -> impl Iterator<Item = u64> {
        (0..self.nodes()).map(NodeIndex).filter(|index| self.is_directory(*index)).filter_map(|index| self.inode(index))
    }

    pub(super) fn is_directory(&self, index: NodeIndex) -> bool {
        self.record(index).and_then(|record| record.kind()) == Some(NodeKind::Directory)
    }
}

/// A directory's children in name order.
#[derive(Debug)]
pub(super) struct Children<'a> {
    snapshot: &'a Snapshot,
    names: NameCursor<'a>,
    directory: NodeIndex,
    next: u32,
    end: u32,
}

impl Children<'_> {
    pub(super) fn next(&mut self) -> Option<(NodeIndex, &[u8])> {
        let index = NodeIndex(self.next);
        // An entry belongs to one directory, so a damaged file cannot make a walk visit it twice.
        if index.0 >= self.end || self.snapshot.record(index)?.parent != self.directory.0 {
            return None;
        }
        self.next += 1;
        Some((index, self.names.next()?.as_bytes()))
    }
}

/// One name in a directory that at least one of two snapshots has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Old(NodeIndex),
    New(NodeIndex),
    Both(NodeIndex, NodeIndex),
}

/// Visits every name of two snapshots by path, in name order inside a directory. Below a directory that only one of
/// them has, `Old` or `New` stands for each entry.
pub(super) fn side_by_side(old: &Snapshot, new: &Snapshot, visit: &mut dyn FnMut(Side, &[u8])) {
    let mut pending = vec![(NodeIndex::ROOT, NodeIndex::ROOT)];
    while let Some((old_directory, new_directory)) = pending.pop() {
        merge(old, old_directory, new, new_directory, &mut |side, name| {
            visit(side, name);
            match side {
                Side::Both(left, right) if old.is_directory(left) && new.is_directory(right) => {
                    pending.push((left, right));
                }
                Side::Both(left, right) => {
                    old.walk(left, &mut |index, name| {
                        visit(Side::Old(index), name);
                        true
                    });
                    new.walk(right, &mut |index, name| {
                        visit(Side::New(index), name);
                        true
                    });
                }
                Side::Old(left) => old.walk(left, &mut |index, name| {
                    visit(Side::Old(index), name);
                    true
                }),
                Side::New(right) => new.walk(right, &mut |index, name| {
                    visit(Side::New(index), name);
                    true
                }),
            }
        });
    }
}

/// The names of two directories in one order.
fn merge(
    old: &Snapshot,
    old_directory: NodeIndex,
    new: &Snapshot,
    new_directory: NodeIndex,
    visit: &mut dyn FnMut(Side, &[u8]),
) {
    let mut left_children = old.children_from(old_directory, 0);
    let mut right_children = new.children_from(new_directory, 0);
    let mut left = Ahead::default();
    let mut right = Ahead::default();
    left.advance(&mut left_children);
    right.advance(&mut right_children);
    loop {
        let order = match (left.index, right.index) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(_), Some(_)) => left.name.cmp(&right.name),
        };
        match (order, left.index, right.index) {
            (std::cmp::Ordering::Equal, Some(old), Some(new)) => visit(Side::Both(old, new), &left.name),
            (std::cmp::Ordering::Less, Some(old), _) => visit(Side::Old(old), &left.name),
            (_, _, Some(new)) => visit(Side::New(new), &right.name),
            _ => return,
        }
        if order.is_le() {
            left.advance(&mut left_children);
        }
        if order.is_ge() {
            right.advance(&mut right_children);
        }
    }
}

/// The child that a side of a merge stands at.
#[derive(Default)]
struct Ahead {
    index: Option<NodeIndex>,
    name: Vec<u8>,
}

impl Ahead {
    fn advance(&mut self, children: &mut Option<Children<'_>>) {
        self.name.clear();
        self.index = children.as_mut().and_then(Children::next).map(|(index, name)| {
            self.name.extend_from_slice(name);
            index
        });
    }
}

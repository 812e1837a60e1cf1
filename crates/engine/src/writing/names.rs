//! The file that a name stands for, and the path of an inode: what was written, over what the snapshot has.

use super::core::WritableTree;
use super::found::{Found, absent, nameless};
use crate::error::Result;
use crate::staging::{Kind, Node, NodeAttributes, Stands, is_written, join};
use crate::vfs::{Attributes, FileKind, FileSystem, Inode, ROOT, Refused, Written};

impl WritableTree {
    /// The path of an inode that has a name.
    pub(super) fn path_of(&self, inode: Inode) -> Result<Vec<u8>> {
        if inode == ROOT {
            return Ok(Vec::new());
        }
        if is_written(inode) {
            let path = self.staged.look(|state| state.node(inode).and_then(|node| node.path.clone()));
            return path.map(Vec::from).ok_or_else(nameless);
        }
        self.tree.paths_of(&[inode]).pop().ok_or_else(nameless)
    }

    /// The path of `name` in the folder `parent`.
    pub(super) fn path_in(&self, parent: Inode, name: &[u8]) -> Written<Vec<u8>> {
        if name.len() > 255 {
            return Err(Refused(libc::ENAMETOOLONG));
        }
        Ok(join(&self.path_of(parent)?, name))
    }

    /// What stands under a path; `NotFound` for nothing.
    pub(super) fn find(&self, path: &[u8]) -> Result<Found> {
        match self.staged.look(|state| state.name(path).map(|name| name.stands)) {
            Some(Stands::Here(inode)) => Ok(Found::Written(inode)),
            Some(Stands::Nothing) => Err(absent()),
            _ => self.tree.find(path).map(|listed| Found::Listed(self.as_changed(listed))),
        }
    }

    pub(super) fn attributes_at(&self, path: &[u8]) -> Result<Attributes> {
        match self.find(path)? {
            Found::Written(inode) => self.attributes_of(inode),
            Found::Listed(listed) => Ok(listed),
        }
    }

    /// The attributes of a file or folder that was written.
    pub(super) fn attributes_of(&self, inode: Inode) -> Result<Attributes> {
        let node = self.node(inode)?;
        let NodeAttributes { mode, uid, gid, mtime_ns } = node.attributes;
        let (kind, size, changed_ns, links) = match node.kind {
            Kind::Folder => (FileKind::Directory, 0, self.started_ns, 2),
            Kind::File => {
                let (size, changed_ns) = self.content_facts(inode, &node)?;
                (FileKind::File, size, changed_ns, u32::from(node.path.is_some()))
            }
        };
        Ok(Attributes { inode, kind, size, mtime_ns: mtime_ns.unwrap_or(changed_ns), mode, uid, gid, links })
    }

    fn content_facts(&self, inode: Inode, node: &Node) -> Result<(u64, i64)> {
        match &node.published {
            Some(held) if node.settled => Ok((held.size, held.version.mtime_ns().unwrap_or(self.started_ns))),
            _ => {
                let live = self.staged.live(inode)?;
                Ok((live.size()?, live.mtime_ns()))
            }
        }
    }

    pub(super) fn node(&self, inode: Inode) -> Result<Node> {
        self.staged.look(|state| state.node(inode).cloned()).ok_or_else(nameless)
    }

    /// A file of the snapshot with the attributes that a program gave it.
    pub(super) fn as_changed(&self, listed: Attributes) -> Attributes {
        match self.staged.look(|state| state.others(listed.inode)) {
            Some(NodeAttributes { mode, uid, gid, mtime_ns }) => {
                Attributes { mode, uid, gid, mtime_ns: mtime_ns.unwrap_or(listed.mtime_ns), ..listed }
            }
            None => listed,
        }
    }

    /// Attributes of any inode.
    pub(super) fn attributes_of_any(&self, inode: Inode) -> Result<Attributes> {
        if is_written(inode) {
            return self.attributes_of(inode);
        }
        self.tree.attributes(inode).map(|listed| self.as_changed(listed))
    }
}

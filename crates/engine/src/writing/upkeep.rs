//! Order in the staging folder: what an earlier mount left, and what is kept of what the origin holds.

use std::sync::atomic::Ordering;

use super::core::WritableTree;
use crate::error::Result;
use crate::staging::{Content, Kind, Node, NodeAttributes, Record, Stands, join, split};
use crate::vfs::Inode;

/// Within the names of files that were left open.
const LEFT: &[u8] = b".left-";

impl WritableTree {
    /// After a mount begins on a new list, which has what was published: only what the origin lacks is told from here.
    /// Files without a name, which nobody can have open, go.
    pub fn begin_anew(&self) -> Result<()> {
        self.set_aside()?;
        let gone: Vec<Inode> = self.staged.look(|state| {
            let nodes = state.nodes().filter(|(_, node)| self.is_told_elsewhere(node));
            nodes.map(|(inode, _)| inode).collect()
        });
        for inode in gone {
            let path = self.node(inode)?.path;
            self.staged.note(Record::Forgotten { inode })?;
            if let Some(path) = path {
                self.staged.note(Record::Uncovered { path: path.into() })?;
            }
            self.staged.remove(inode);
        }
        let deleted: Vec<Vec<u8>> = self.staged.look(|state| {
            let names = state.names().filter(|(_, name)| {
                name.held.is_none() && name.upload.is_none() && !matches!(name.stands, Stands::Here(_))
            });
            names.map(|(path, _)| path).collect()
        });
        deleted.into_iter().try_for_each(|path| self.staged.note(Record::Uncovered { path }))
    }

    fn is_told_elsewhere(&self, node: &Node) -> bool {
        match (&node.path, node.kind) {
            (None, _) => true,
            (Some(_), Kind::File) => node.content == Content::Published,
            (Some(path), Kind::Folder) => self.options.has_folders || self.tree.find(path).is_ok(),
        }
    }

    /// What was open when the mount before ended may be half written: it keeps its content, and loses its name to what the
    /// origin has.
    fn set_aside(&self) -> Result<()> {
        for inode in self.left.lock().clone() {
            // One that was removed has none.
            let Ok(path) = self.path_of(inode) else { continue };
            let (folder, name) = split(&path);
            if name.starts_with(b".") && name.windows(LEFT.len()).any(|part| part == LEFT) {
                continue;
            }
            let aside = [b".", name, LEFT, format!("{inode:x}").as_bytes()].concat();
            self.staged.note(Record::Moved { inode, path: join(folder, &aside), request: 0 })?;
            self.staged.note(Record::Uncovered { path })?;
        }
        Ok(())
    }

    /// Takes away what uploads left that a kill cut off.
    pub async fn clear_uploads(&self) {
        let paths: Vec<Vec<u8>> = self
            .staged
            .look(|state| state.names().filter(|(_, name)| name.upload.is_some()).map(|(path, _)| path).collect());
        for path in paths {
            self.give_up(&path).await;
        }
    }

    /// The origin holds what nobody has open to be written, soon and without anybody who waits: after a process that died.
    pub fn finish_in_background(&self) {
        let Some(tree) = self.shared() else { return };
        self.runtime.spawn(async move {
            if let Err(error) = tree.finish().await {
                tracing::error!("{error}");
            }
        });
    }

    /// Its content is to be in the origin alone; its time stays.
    fn settle(&self, inode: Inode) -> Result<()> {
        let mtime_ns = self.attributes_of(inode)?.mtime_ns;
        self.staged.decide(|ledger| {
            let Some(of) = ledger.state().node(inode).map(|node| node.attributes) else { return Ok(()) };
            ledger.commit(NodeAttributes { mtime_ns: Some(mtime_ns), ..of }.record(inode))?;
            ledger.commit(Record::Settled { inode })
        })
    }

    /// Makes room in the staging folder after `more` bytes came to the origin: what it holds and nobody has open goes,
    /// oldest first.
    pub(super) fn trim(&self, more: u64) {
        if self.kept_estimate.fetch_add(more, Ordering::Relaxed).saturating_add(more) <= self.options.kept_bytes {
            return;
        }
        let kept: Vec<Inode> = self.staged.look(|state| {
            let files = state.nodes().filter(|(_, node)| node.kind == Kind::File && !node.settled);
            files
                .filter(|(_, node)| node.content == Content::Published && node.path.is_some())
                .map(|(n, _)| n)
                .collect()
        });
        let mut bytes: u64 = kept.iter().map(|inode| self.staged.size(*inode)).sum();
        for inode in kept {
            if bytes <= self.options.kept_bytes {
                break;
            }
            bytes -= self.staged.size(inode);
            self.handles.if_unused(inode, || {
                if self.settle(inode).is_ok() {
                    self.staged.remove(inode);
                }
            });
        }
        self.kept_estimate.store(bytes, Ordering::Relaxed);
    }
}

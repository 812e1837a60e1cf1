//! Files that are not in the origin yet, for `headrace status`, and another try at it.

use serde::Serialize;

use super::core::WritableTree;
use super::publishing::shown;
use crate::error::{Error, ErrorKind, Result};
use crate::staging::{Content, Kind, Record, Stands};
use crate::vfs::Inode;

/// How it stands with what was written.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WritingStatus {
    /// Where written files lie.
    pub folder: String,
    pub staged_files: u64,
    pub staged_bytes: u64,
    /// Files that programs have open to be written.
    pub open_files: u64,
    /// Files that were closed, and are not in the origin.
    pub unpublished: Vec<Unpublished>,
    /// Names that are gone here, and not yet in the origin.
    pub undeleted: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Unpublished {
    pub path: String,
    pub bytes: u64,
    /// Where its content lies.
    pub file: String,
    /// Why it is not in the origin; `None` when that was not tried again since the mount began.
    pub error: Option<String>,
    /// Whether it was open when its mount ended: it may be half written.
    pub was_open: bool,
}

impl WritableTree {
    pub fn status(&self) -> WritingStatus {
        let nodes: Vec<_> =
            self.staged.look(|state| state.nodes().map(|(inode, node)| (inode, node.clone())).collect());
        let undeleted = self.undeleted().iter().map(|path| shown(path)).collect();
        let folder = self.staged.path().display().to_string();
        let mut status = WritingStatus { folder, undeleted, ..WritingStatus::default() };
        let failures = self.failures.lock().clone();
        for (inode, node) in nodes.into_iter().filter(|(_, node)| node.kind == Kind::File && !node.settled) {
            let bytes = self.staged.size(inode);
            status.staged_files += 1;
            status.staged_bytes += bytes;
            let is_open = self.handles.users(inode).writing > 0;
            status.open_files += u64::from(is_open);
            let error = failures.get(&inode).cloned();
            if let Some(path) = node.path
                && node.content != Content::Published
                && (!is_open || error.is_some())
            {
                let file = self.staged.file_path(inode).display().to_string();
                let was_open = self.left.lock().contains(&inode);
                status.unpublished.push(Unpublished { path: shown(&path), bytes, file, error, was_open });
            }
        }
        status
    }

    /// Tries once more to have the origin hold what was closed, and to delete what is gone; how many names were done.
    pub async fn finish(&self) -> Result<u64> {
        let mut done = 0;
        let mut failed = Vec::new();
        for inode in self.closed() {
            match self.publish(inode).await {
                Ok(()) => done += 1,
                Err(error) => failed.push(error),
            }
        }
        for path in self.undeleted() {
            match self.delete_gone(&path).await {
                Ok(()) => done += 1,
                Err(error) => failed.push(error),
            }
        }
        let count = failed.len();
        match failed.into_iter().next() {
            None => Ok(done),
            Some(first) => {
                Err(Error::new(first.kind(), format!("{count} names are not as written in the origin: {first}"))
                    .with_hint("`headrace status` names them; `headrace sync` tries again"))
            }
        }
    }

    /// Takes what was written for what the storage shall hold under the name, whatever somebody else put there.
    pub async fn take_ours(&self, path: &[u8]) -> Result<()> {
        let inode = self.unpublished_at(path)?;
        {
            let _lock = self.locks.lock(path).await;
            let there = self.target.look(path).await?;
            let held = there.as_ref().map(super::publishing::as_held);
            self.staged.note(Record::Holds { path: path.to_vec(), held })?;
        }
        self.left.lock().remove(&inode);
        self.publish(inode).await
    }

    /// Gives up what was written under the name: it stands for what the storage holds, once that is listed.
    pub async fn take_theirs(&self, path: &[u8]) -> Result<()> {
        let inode = self.unpublished_at(path)?;
        let _lock = self.locks.lock(path).await;
        self.give_up(path).await;
        self.staged.decide(|ledger| {
            ledger.commit(Record::Forgotten { inode })?;
            ledger.commit(Record::Uncovered { path: path.to_vec() })
        })?;
        self.failures.lock().remove(&inode);
        self.left.lock().remove(&inode);
        self.staged.remove(inode);
        Ok(())
    }

    fn unpublished_at(&self, path: &[u8]) -> Result<Inode> {
        let stands = self.staged.look(|state| state.name(path).map(|name| name.stands));
        if let Some(Stands::Here(inode)) = stands {
            let node = self.node(inode)?;
            if node.kind == Kind::File && node.content != Content::Published && self.handles.users(inode).all == 0 {
                return Ok(inode);
            }
        }
        let message = format!("{} is no closed file that the storage lacks", shown(path));
        Err(Error::new(ErrorKind::NotFound, message).with_hint("`headrace status` names those that there are"))
    }

    /// Files that nobody writes and the origin does not hold.
    fn closed(&self) -> Vec<Inode> {
        let left = self.left.lock().clone();
        let changed: Vec<Inode> = self.staged.look(|state| {
            let nodes = state.nodes().filter(|(_, node)| node.kind == Kind::File && node.path.is_some());
            nodes.filter(|(_, node)| node.content != Content::Published).map(|(inode, _)| inode).collect()
        });
        changed.into_iter().filter(|inode| !left.contains(inode) && self.handles.users(*inode).writing == 0).collect()
    }

    fn undeleted(&self) -> Vec<Vec<u8>> {
        self.staged.look(|state| {
            let gone = state.names().filter(|(_, name)| name.stands == Stands::Nothing && name.held.is_some());
            gone.map(|(path, _)| path).collect()
        })
    }

    pub(super) async fn delete_gone(&self, path: &[u8]) -> Result<()> {
        let _lock = self.locks.lock(path).await;
        let is_gone = self.staged.look(|state| state.name(path).is_some_and(|name| name.stands == Stands::Nothing));
        if is_gone {
            self.delete(path).await?;
            self.staged.note(Record::Holds { path: path.to_vec(), held: None })?;
        }
        Ok(())
    }
}

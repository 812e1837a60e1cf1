//! Paths as people write them, on a snapshot: the part of an engine that never leaves the process.

use crate::error::{Error, ErrorKind, Result};
use crate::ids::Version;
use crate::snapshot::{Node, NodeIndex, NodeKind, Snapshot};

/// One name of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: Vec<u8>,
    pub kind: NodeKind,
    pub size: u64,
    pub mtime_ns: i64,
    pub inode: u64,
    pub etag: Option<Vec<u8>>,
    /// Of a file.
    pub version: Option<Version>,
    /// The owner whose inode that is.
    pub generation: u64,
}

impl Entry {
    /// The node of this version in the snapshot of another owner, whose inodes may be others; `Stale` when there is none.
    pub fn find_again(&self, snapshot: &Snapshot) -> Result<Node> {
        let found = find_file(snapshot, &self.path).ok();
        let is_same = |node: &Node| node.size == self.size && snapshot.file_version(node.index) == self.version;
        found.filter(is_same).ok_or_else(|| {
            Error::new(ErrorKind::Stale, format!("{} changed since it was opened", shown(&self.path)))
                .with_hint("open it again")
        })
    }
}

/// The node at `path` (slash-separated, no leading slash; empty for the root).
pub fn find(snapshot: &Snapshot, path: &[u8]) -> Result<Node> {
    let mut index = NodeIndex(0);
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        index = snapshot.lookup(index, name).ok_or_else(|| missing(path))?;
    }
    snapshot.node(index).ok_or_else(|| missing(path))
}

/// The file at `path`; a directory is an error.
pub fn find_file(snapshot: &Snapshot, path: &[u8]) -> Result<Node> {
    let node = find(snapshot, path)?;
    match node.kind {
        NodeKind::File => Ok(node),
        NodeKind::Directory => Err(Error::new(ErrorKind::IsDirectory, format!("{} is a directory", shown(path)))),
        NodeKind::Symlink => Err(Error::new(ErrorKind::Unsupported, format!("{} is a symbolic link", shown(path)))
            .with_hint("read the file that it names, or read through a mount")),
    }
}

/// What `node` is, with the number of the owner whose snapshot that is.
pub fn entry(snapshot: &Snapshot, node: &Node, generation: u64) -> Entry {
    let version = snapshot.file_version(node.index);
    let etag = match &version {
        Some(Version::Etag(tag)) => Some(tag.to_vec()),
        _ => None,
    };
    Entry {
        path: snapshot.path(node.index),
        kind: node.kind,
        size: node.size,
        mtime_ns: node.mtime_ns,
        inode: node.inode,
        etag,
        version,
        generation,
    }
}

/// Up to `limit` children of the directory at `path`, those after the name `after`, in name order.
pub fn list(
    snapshot: &Snapshot,
    generation: u64,
    path: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<Entry>> {
    let directory = find(snapshot, path)?;
    if directory.kind != NodeKind::Directory {
        return Err(Error::new(ErrorKind::NotDirectory, format!("{} is not a directory", shown(path))));
    }
    let mut nodes = Vec::new();
    let skip = after.map_or(0, |name| position_of(snapshot, directory.index, name));
    snapshot.children(directory.index, skip, &mut |index, name| {
        if after.is_none_or(|after| name > after) {
            nodes.extend(snapshot.node(index));
        }
        nodes.len() < limit
    });
    nodes.truncate(limit);
    Ok(nodes.iter().map(|node| entry(snapshot, node, generation)).collect())
}

/// How many children stand before the child `name`; 0, which is always safe, when there is no such child any more.
fn position_of(snapshot: &Snapshot, directory: NodeIndex, name: &[u8]) -> u32 {
    let mut first = None;
    snapshot.children(directory, 0, &mut |index, _| {
        first = Some(index);
        false
    });
    let found = snapshot.lookup(directory, name).zip(first);
    found.map_or(0, |(child, first)| child.0.saturating_sub(first.0))
}

/// A path for a message: invalid UTF-8 replaced, the root by its slash.
pub fn shown(path: &[u8]) -> String {
    if path.is_empty() { "/".to_owned() } else { String::from_utf8_lossy(path).into_owned() }
}

fn missing(path: &[u8]) -> Error {
    Error::new(ErrorKind::NotFound, format!("{} is not in the snapshot", shown(path)))
        .with_hint("`headrace ls` shows what is; `headrace refresh` takes a new snapshot")
}

//! The immutable, versioned list of a dataset's files: built once from a listing, then only mapped.
//!
//! Signatures that other layers build on; the format stands in `docs/format.md`.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::ids::Version;
use crate::origin::ListedObject;

/// The position of an entry inside one snapshot. 0 is the root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    File,
    Directory,
    Symlink,
}

/// One entry, decoded. `inode` is stable across refreshes as long as the file's version is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub index: NodeIndex,
    pub parent: NodeIndex,
    pub inode: u64,
    pub kind: NodeKind,
    pub size: u64,
    pub mtime_ns: i64,
    /// Which of the snapshot's origins holds it.
    pub origin: u16,
    /// Directories: how many of the children are directories (for the link count).
    pub subdirectories: u32,
}

/// A mapped snapshot. Cheap to clone; look-ups allocate nothing and never leave the process.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<()>);

/// Names that no file system can hold, and why each was left out.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Rejections {
    /// (rule's name, how many keys)
    pub counts: Vec<(String, u64)>,
    /// (rule's name, the key with invalid bytes escaped): a bounded sample of each rule.
    pub samples: Vec<(String, String)>,
}

/// What differs between two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    pub added: u64,
    pub changed: u64,
    pub removed: u64,
    pub unchanged: u64,
}

impl Snapshot {
    /// Maps and checks a snapshot file: magic, version, lengths and checksums. A damaged file is `Corrupt`.
    pub fn open(_path: &Path) -> Result<Self> {
        unimplemented!()
    }

    pub fn version(&self) -> u64 {
        unimplemented!()
    }

    pub fn files(&self) -> u64 {
        unimplemented!()
    }

    /// Bytes of all files together.
    pub fn total_bytes(&self) -> u64 {
        unimplemented!()
    }

    pub fn node(&self, _index: NodeIndex) -> Option<Node> {
        unimplemented!()
    }

    /// The child of `directory` with exactly this name.
    pub fn lookup(&self, _directory: NodeIndex, _name: &[u8]) -> Option<NodeIndex> {
        unimplemented!()
    }

    /// The entry with this inode, if this snapshot has it.
    pub fn find_inode(&self, _inode: u64) -> Option<NodeIndex> {
        unimplemented!()
    }

    /// Visits the children of `directory` in name order from the `skip`-th on, until `visit` answers false.
    pub fn children(&self, _directory: NodeIndex, _skip: u32, _visit: &mut dyn FnMut(NodeIndex, &[u8]) -> bool) {
        unimplemented!()
    }

    /// The path from the root, without a leading slash.
    pub fn path(&self, _index: NodeIndex) -> Vec<u8> {
        unimplemented!()
    }

    /// The key of a file below its origin (its path without the origin's mount path).
    pub fn origin_key(&self, _index: NodeIndex) -> Vec<u8> {
        unimplemented!()
    }

    /// The version of a file.
    pub fn file_version(&self, _index: NodeIndex) -> Option<Version> {
        unimplemented!()
    }

    pub fn symlink_target(&self, _index: NodeIndex) -> Option<Vec<u8>> {
        unimplemented!()
    }

    pub fn rejections(&self) -> Rejections {
        unimplemented!()
    }
}

/// Collects listed objects and writes a snapshot file.
#[derive(Debug)]
pub struct SnapshotBuilder {}

impl SnapshotBuilder {
    /// A builder for a dataset whose origins appear at `mounts` (slash-separated, empty for the root).
    pub fn new(_mounts: &[String]) -> Result<Self> {
        unimplemented!()
    }

    /// Adds one object of origin number `origin`.
    pub fn add(&mut self, _origin: u16, _object: ListedObject) {
        unimplemented!()
    }

    /// Writes the snapshot to `path` (atomically: temporary file, sync, rename) as the successor of `previous`.
    pub fn finish(self, _path: &Path, _previous: Option<&Snapshot>) -> Result<(Snapshot, Difference)> {
        unimplemented!()
    }
}

//! The immutable, versioned list of a dataset's files: built once from a listing, then only mapped.
//!
//! A snapshot knows names, sizes, versions and inodes. It knows nothing of bytes, caches or how an origin is reached.
//! The file format stands in `docs/format/snapshot.md`, the rules for keys in `docs/semantics.md`, "Names".
//!
//! `build` judges (`rules`) and collects (`collected`), `tree` sorts and settles conflicts, `draft` writes the file, `mapped` reads
//! it, `difference` compares two of them, `line` makes one the successor of another; `layout`,
//! `record`, `names` and `permissions` are the format's parts.

mod build;
mod collected;
mod difference;
mod directories;
mod draft;
pub mod erofs;
mod layout;
mod line;
mod mapped;
mod names;
mod permissions;
mod record;
mod rules;
mod tree;
mod walk;

pub use build::SnapshotBuilder;
pub use difference::{Change, ChangeKind, Difference, difference_inodes};
pub use line::continue_line;
pub use mapped::Snapshot;
pub use names::{NAME_MAX, Name};
pub use rules::{Rejections, Rule};

use crate::origin::Permissions;

/// The position of an entry inside one snapshot. 0 is the root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

impl NodeIndex {
    /// The root directory of every snapshot.
    pub const ROOT: NodeIndex = NodeIndex(0);
}

/// The inode of the root directory of every snapshot.
pub const ROOT_INODE: u64 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    File,
    Directory,
    Symlink,
}

/// One entry, decoded. `inode` is stable across refreshes as long as the file's version is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub index: NodeIndex,
    /// The directory that holds it; the root's is itself.
    pub parent: NodeIndex,
    pub inode: u64,
    pub kind: NodeKind,
    /// Bytes of a file or of a link's text; 0 for a directory.
    pub size: u64,
    pub mtime_ns: i64,
    /// Whose it is and who may read it, where the origin knows that.
    pub permissions: Option<Permissions>,
    /// Which of the snapshot's origins holds it. Directories: the first of the origins that do.
    pub origin: u16,
    /// Directories: how many of the children are directories (for the link count).
    pub subdirectories: u32,
    /// Directories: how many children there are.
    pub children: u32,
}

//! The result of a listing before it is arranged into a tree: directories, leaves, their names and texts.

use super::directories::{Directories, Directory, NameArena, NameRange};
use super::permissions::PermissionTable;
use super::record::Record;
use super::rules::Rejected;

/// A file or link before it has an index. `record.parent` holds the number of its directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf {
    pub record: Record,
    pub name: NameRange,
}

/// All entries of a snapshot to be, in the order in which they were listed.
#[derive(Debug)]
pub(super) struct Collected {
    pub directories: Directories,
    pub names: NameArena,
    pub leaves: Vec<Leaf>,
    /// Link texts, and entity tags that do not fit a record.
    pub text: Vec<u8>,
    pub rejected: Rejected,
    pub permissions: PermissionTable,
}

impl Collected {
    pub fn new() -> Self {
        Collected {
            directories: Directories::new(),
            names: NameArena::default(),
            leaves: Vec::new(),
            text: Vec::new(),
            rejected: Rejected::default(),
            permissions: PermissionTable::default(),
        }
    }

    /// What all of it takes, as far as it grows with what is listed.
    pub fn memory_bytes(&self) -> u64 {
        let leaves = self.leaves.len() * size_of::<Leaf>();
        let directories = self.directories.all().len() * (size_of::<Directory>() + size_of::<u64>());
        (leaves + directories + self.names.len() + self.text.len()) as u64
    }
}

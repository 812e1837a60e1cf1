//! Files that programs are writing: kept on a disk of this machine, with a ledger that says what becomes of each.
//!
//! Knows no origin, no kernel and no transfer. All that is known of names and contents changes by records alone, which
//! the ledger has before anybody is told: so what a killed process had said is what the next one finds.

mod folder;
mod held;
mod ledger;
mod record;
mod state;

pub use folder::{Room, StagingFolder};
pub use held::Held;
pub use ledger::Ledger;
pub use record::{Kind, Record};
pub use state::{Content, Name, Node, NodeAttributes, Stands, State};

/// Numbers of written files begin here: those of a snapshot count from 1.
pub const FIRST_INODE: u64 = 1 << 48;

/// Whether the number is one of a file or folder that was written here.
pub fn is_written(inode: u64) -> bool {
    inode >= FIRST_INODE
}

/// The folder and the last name of a path without slashes at its ends.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// The path of `name` in `folder`, which is empty for the root.
pub fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

//! A snapshot that somebody else took, as the successor of one that is known here.

use std::path::Path;

use super::difference::{Difference, carry_inodes};
use super::draft::Draft;
use super::mapped::Snapshot;
use crate::error::Result;

/// Gives the entries of the snapshot at `path` the inodes that they would have if it had been taken after `previous`.
///
/// What did not change keeps its inode, and no inode of before is used for anything else: who has seen `previous`, as a
/// kernel has, may see this one. Whoever took it may have numbered its entries otherwise, as a lister does that lost its
/// earlier snapshots. The file is replaced as a whole or not at all.
pub fn continue_line(previous: &Path, path: &Path) -> Result<Difference> {
    let (previous, taken) = (Snapshot::open(previous)?, Snapshot::open(path)?);
    let (inodes, next_inode, difference) = carry_inodes(&previous, &taken)?;
    let mut draft = Draft::create(path)?;
    draft.write_copy(&taken)?;
    draft.write_inodes(&inodes, next_inode)?;
    draft.publish()?;
    Ok(difference)
}

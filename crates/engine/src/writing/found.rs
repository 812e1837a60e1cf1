//! Things that a name can stand for, and the errors for one that stands for nothing.

use crate::error::{Error, ErrorKind};
use crate::vfs::{Attributes, Inode};

/// What a name stands for.
#[derive(Debug, Clone, Copy)]
pub enum Found {
    Written(Inode),
    Listed(Attributes),
}

pub(super) fn absent() -> Error {
    Error::new(ErrorKind::NotFound, "no such file or directory")
}

/// The kernel is to look its name up again.
pub(super) fn nameless() -> Error {
    Error::new(ErrorKind::Stale, "the file has no name any more")
}

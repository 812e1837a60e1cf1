//! The meaning of a member's error for a read. Pure.

use crate::error::{Error, ErrorKind};
use crate::wire::REPORTED;

/// What an error means for the read.
pub(super) enum Verdict {
    /// It is the answer.
    Final,
    /// Another member may do better.
    TryAnother,
    /// The same, and this member is not to be asked for a while.
    Suspect,
}

/// True when the worker itself reports it; else it is of the way to it.
pub(super) fn is_of_worker(error: &Error) -> bool {
    error.context().iter().any(|(name, _)| *name == REPORTED)
}

/// True when the worker reports that this object, or this version of it, is no more: nobody would say otherwise, and of
/// other objects it means nothing.
pub(super) fn is_of_object(error: &Error) -> bool {
    is_of_worker(error) && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Stale)
}

/// True when a member's bytes did not match the checksum that it sent with them.
pub(super) fn is_damage(error: &Error) -> bool {
    error.kind() == ErrorKind::Corrupt && !is_of_worker(error)
}

/// What to do about an error of a member.
pub(super) fn verdict(error: &Error) -> Verdict {
    use ErrorKind::*;
    match (is_of_worker(error), error.kind()) {
        (true, NotFound | Stale | IsDirectory | NotDirectory | Config | Unsupported) => Verdict::Final,
        (true, Cancelled) => Verdict::Suspect,
        (true, _) | (false, Corrupt) => Verdict::TryAnother,
        (false, _) => Verdict::Suspect,
    }
}

//! A written file that is read from the origin.

use crate::transfer::{ReaderState, Source};

/// A file whose content is in the origin alone.
pub(super) struct Settled {
    pub source: Source,
    pub reader: ReaderState,
}

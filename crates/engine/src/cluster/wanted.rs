//! The object that is read from members, in the words of the wire.

use std::sync::Arc;

use crate::ids::{BlockSize, ByteRange, FileKey};
use crate::origin::{Asker, ObjectVersion};
use crate::ring::{StripeId, stripe_of};
use crate::wire::{GetRequest, PURPOSE_READ, PURPOSE_WARM};

/// What is read, for all its segments.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub key: Arc<FileKey>,
    pub block_size: BlockSize,
    asker: Asker,
}

impl Wanted {
    /// An object of the origin that goes by `name`, for whom this task asks.
    pub(super) fn of(name: &Arc<str>, object: &ObjectVersion, block_size: BlockSize) -> Self {
        let ObjectVersion { key: path, size, version } = object.clone();
        let key = FileKey { dataset: name.clone(), path, size, version };
        Wanted { key: Arc::new(key), block_size, asker: Asker::current() }
    }

    /// The stripe that byte `offset` lies in.
    pub(super) fn stripe(&self, offset: u64) -> StripeId {
        stripe_of(&self.key.id(), self.block_size.index_of(offset), self.block_size)
    }

    pub(super) fn request(&self, range: ByteRange) -> GetRequest {
        GetRequest {
            key: (*self.key).clone(),
            range,
            block_size: self.block_size.bytes(),
            cached_only: false,
            direct: false,
            purpose: if self.asker == Asker::Load { PURPOSE_WARM } else { PURPOSE_READ },
            fill: None,
        }
    }
}

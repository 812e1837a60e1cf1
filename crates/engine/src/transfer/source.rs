//! One version of one file and the origin that has it: all that a fill needs to know.

use std::fmt;
use std::sync::Arc;

use crate::ids::{BlockId, FileId, FileKey};
use crate::origin::{ObjectVersion, Origin};

/// One file version and where it comes from. Cheap to clone.
#[derive(Clone)]
pub struct Source(Arc<Facts>);

struct Facts {
    key: Arc<FileKey>,
    id: FileId,
    object: ObjectVersion,
    origin: Arc<dyn Origin>,
}

impl Source {
    /// The source of `object`, whose blocks are kept under `key`.
    pub fn new(key: FileKey, object: ObjectVersion, origin: Arc<dyn Origin>) -> Self {
        let id = key.id();
        Source(Arc::new(Facts { key: Arc::new(key), id, object, origin }))
    }

    pub fn key(&self) -> &Arc<FileKey> {
        &self.0.key
    }

    pub fn id(&self) -> FileId {
        self.0.id
    }

    pub fn object(&self) -> &ObjectVersion {
        &self.0.object
    }

    pub fn origin(&self) -> &Arc<dyn Origin> {
        &self.0.origin
    }

    /// Length of the file in bytes.
    pub fn size(&self) -> u64 {
        self.0.key.size
    }

    /// The path as people know it, with bytes that are no UTF-8 replaced.
    pub fn path(&self) -> String {
        String::from_utf8_lossy(&self.0.key.path).into_owned()
    }

    pub(crate) fn block(&self, index: u32) -> BlockId {
        BlockId { file: self.0.id, index }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({} of {}, {} bytes)", self.path(), self.0.key.dataset, self.size())
    }
}

//! The cached share of the current snapshot. It is looked for once for each snapshot, when that is first asked; the
//! store counts from then on.

use std::sync::Arc;

use crate::store::{Listed, Store};
use crate::sync::Mutex;
use crate::vfs::{Tree, has_checksums};

#[derive(Default)]
pub struct Coverage {
    /// The identity of the snapshot that the store counts by; 0 when by none.
    counted: Mutex<u64>,
}

impl Coverage {
    pub fn of(&self, tree: &Tree, store: &Store) -> Listed {
        let mut counted = self.counted.lock();
        let catalogue = Arc::new(tree.catalogue());
        if *counted != catalogue.identity() {
            *counted = catalogue.identity();
            let files = catalogue.clone();
            let ids = files.files().map(|source| (source.id(), has_checksums(&source)));
            store.count_by(catalogue, files.count(), ids);
        }
        store.listed()
    }

    /// The snapshot is no longer the current one: nobody shall keep it for this.
    pub fn forget(&self, store: &Store) {
        let mut counted = self.counted.lock();
        *counted = 0;
        store.count_by_none();
    }
}

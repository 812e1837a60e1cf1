//! Work on disks for somebody who waits: it ends with an error that names worker and folder when one of them hangs.

use tokio::runtime::Handle;

use super::service::BlockService;
use crate::error::{Error, Result};
use crate::ids::FileId;
use crate::store::Blocks;
use crate::transfer::on_disks;

impl BlockService {
    /// What `work` returns, on a thread of its own; `Timeout` when a disk hangs meanwhile.
    pub(super) async fn on_disks<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        on_disks(&Handle::current(), &*self.store, work).await.map_err(|error| self.named(error))
    }

    /// `Timeout` when something of one of these files lies on a disk that hangs.
    pub(super) fn within_reach(&self, files: &[FileId]) -> Result<()> {
        self.store.within_reach(files.iter().copied()).map_err(|error| self.named(error))
    }

    /// What is to be said of a disk that hangs, if one does.
    pub(super) fn hanging(&self) -> Option<Error> {
        self.store.hanging().map(|error| self.named(error))
    }

    /// The error of our own disks, for whoever asks many workers.
    pub(super) fn named(&self, error: Error) -> Error {
        match &self.cluster.options().identity {
            Some(identity) => error.with_context("worker", &identity.member),
            None => error,
        }
    }
}

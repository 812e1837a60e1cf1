//! The memory that one block in flight counts against. Knows nothing of who hands it out or who waits for it.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::budget::Permit;

/// The share of one block; dropping it gives it back and wakes who looks for memory.
#[derive(Debug)]
pub(crate) struct BlockMemory {
    permit: Option<Permit>,
    freed: Arc<Notify>,
}

impl BlockMemory {
    pub(crate) fn new(permit: Permit, freed: &Arc<Notify>) -> Self {
        BlockMemory { permit: Some(permit), freed: freed.clone() }
    }
}

impl Drop for BlockMemory {
    fn drop(&mut self) {
        self.permit = None;
        self.freed.notify_waiters();
    }
}

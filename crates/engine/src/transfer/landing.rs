//! Blocks that were fetched and are not in the store yet: readers have their bytes before a disk has them.

use std::sync::Arc;
use std::time::Duration;

use super::Transfer;
use crate::ids::{BlockId, FileKey};

impl Transfer {
    /// True when all bytes of the block are in memory, so that nobody need fetch them.
    pub fn holds_in_memory(&self, id: &BlockId) -> bool {
        self.flights.find(id).is_some_and(|flight| flight.is_complete())
    }

    /// Waits until the blocks that are being fetched now are here, or given up; no longer than `at_most`.
    pub async fn land(&self, at_most: Duration) {
        let coming = self.flights.all().into_iter().filter(|flight| flight.is_filling());
        let ends: Vec<_> = coming.map(|flight| flight.watch()).collect();
        let all = async {
            for end in ends {
                // One that will never be told has ended as well.
                let _ = end.await;
            }
        };
        let _ = tokio::time::timeout(at_most, all).await;
    }

    /// The blocks of which all bytes are in memory, and that are on their way to the store or were not taken by it.
    pub fn blocks_in_memory_alone(&self) -> Vec<(Arc<FileKey>, u32)> {
        let flights = self.flights.all().into_iter().filter(|flight| flight.is_complete());
        flights.map(|flight| (flight.source.key().clone(), flight.id.index)).collect()
    }
}

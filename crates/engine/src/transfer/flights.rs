//! The blocks that are on their way or still in memory: the map that makes every fetch happen once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use super::flight::Flight;
use crate::ids::{BlockId, FileKey};
use crate::sync::Mutex;

const SHARDS: usize = 64;

/// All flights, by block.
#[derive(Debug)]
pub(crate) struct Flights {
    shards: Vec<Mutex<HashMap<BlockId, Arc<Flight>>>>,
}

/// What came of trying to become the one who fetches a block.
pub(crate) enum Claim {
    Mine(Arc<Flight>),
    /// Somebody else does, or did and still holds it.
    Taken,
    /// It came into the store meanwhile.
    Stored,
}

impl Flights {
    pub(crate) fn new() -> Self {
        Flights { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn find(&self, id: &BlockId) -> Option<Arc<Flight>> {
        self.shard(id).lock().get(id).cloned()
    }

    pub(crate) fn contains(&self, id: &BlockId) -> bool {
        self.shard(id).lock().contains_key(id)
    }

    /// Makes the caller the one who fetches `id`, unless it is on its way or `in_store` now. A flight leaves this map
    /// only after its block is in the store, so looking there under the shard's lock closes the gap in between.
    pub(crate) fn claim(
        &self,
        id: BlockId,
        in_store: impl FnOnce() -> bool,
        make: impl FnOnce() -> Arc<Flight>,
    ) -> Claim {
        let mut shard = self.shard(&id).lock();
        match shard.entry(id) {
            Entry::Occupied(_) => Claim::Taken,
            Entry::Vacant(_) if in_store() => Claim::Stored,
            Entry::Vacant(entry) => Claim::Mine(entry.insert(make()).clone()),
        }
    }

    /// Takes this very flight out of the map; a later flight of the same block stays.
    pub(crate) fn remove(&self, flight: &Arc<Flight>) {
        let mut shard = self.shard(&flight.id).lock();
        if shard.get(&flight.id).is_some_and(|current| Arc::ptr_eq(current, flight)) {
            shard.remove(&flight.id);
        }
    }

    /// How many blocks are on their way or kept in memory.
    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// All of them as they are now.
    pub(crate) fn all(&self) -> Vec<Arc<Flight>> {
        self.shards.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// True when all bytes of the block are in memory, so that nobody need fetch them.
    pub(super) fn holds(&self, id: &BlockId) -> bool {
        self.find(id).is_some_and(|flight| flight.is_complete())
    }

    /// Waits until the blocks that are being fetched now are here, or given up; no longer than `at_most`.
    pub(super) async fn land(&self, at_most: Duration) {
        let coming = self.all().into_iter().filter(|flight| flight.is_filling());
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
    pub(super) fn in_memory_alone(&self) -> Vec<(Arc<FileKey>, u32)> {
        let flights = self.all().into_iter().filter(|flight| flight.is_complete());
        flights.map(|flight| (flight.source.key().clone(), flight.id.index)).collect()
    }

    fn shard(&self, id: &BlockId) -> &Mutex<HashMap<BlockId, Arc<Flight>>> {
        // The id is a hash already; neighbouring blocks of one file go to neighbouring shards.
        &self.shards[(usize::from(id.file.0[0]) + id.index as usize) % SHARDS]
    }
}

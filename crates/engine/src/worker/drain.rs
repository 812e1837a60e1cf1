//! The blocks that a leaving worker hands over: all that it has, to those who own it from now on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::service::BlockService;
use crate::cluster::{HoldJob, HoldOrder, HoldWish, Orders, orders};
use crate::error::Result;
use crate::ids::{BlockSize, FileId, FileKey};

/// The longest that a drain waits, before it begins, for blocks that are being fetched.
const LANDING: Duration = Duration::from_secs(5);

/// The blocks of a store as orders, as they were when the drain began.
struct Leaving {
    /// Files with the numbers of their blocks.
    blocks: Vec<(Arc<FileKey>, Vec<u32>)>,
    block_size: BlockSize,
    bytes: u64,
}

impl Orders for Leaving {
    fn total_files(&self) -> u64 {
        self.blocks.len() as u64
    }

    fn total_bytes(&self) -> u64 {
        self.bytes
    }

    fn iterate(&self) -> Box<dyn Iterator<Item = HoldOrder> + Send + '_> {
        let files = self.blocks.iter();
        Box::new(files.flat_map(|(key, indices)| orders(key, indices.iter().copied(), self.block_size)))
    }
}

impl Leaving {
    fn add(&mut self, key: Arc<FileKey>, here: BTreeSet<u32>) {
        self.bytes += here.iter().map(|index| self.block_size.range(*index, key.size).length()).sum::<u64>();
        self.blocks.push((key, here.into_iter().collect()));
    }
}

impl BlockService {
    /// Has the owners of what is here take it, but for what they have no room for. The view must say that this worker is
    /// draining: then the owners are others, and ask this one first. Reads the names of all cached files from disk, and
    /// leaves out disks that hang: `Timeout` when one begins to meanwhile.
    pub async fn drain(self: &Arc<Self>) -> Result<Arc<HoldJob>> {
        let (block_size, service) = (self.transfer.block_size(), self.clone());
        self.transfer.land(LANDING).await;
        let leaving = self.on_disks(move || service.leaving()).await?;
        let wish = HoldWish { lets_go: true, ..HoldWish::default() };
        Ok(HoldJob::start(&self.cluster, Arc::new(leaving), block_size, wish))
    }

    /// Files of an origin that the dataset no longer has are left out: nobody would take them, or ask for them.
    fn leaving(&self) -> Leaving {
        let (block_size, store) = (self.transfer.block_size(), &self.store);
        // Before the store is looked at: what goes there meanwhile is found twice, and not never.
        let mut in_memory = self.in_memory();
        let mut leaving = Leaving { blocks: Vec::new(), block_size, bytes: 0 };
        store.files(|file| {
            if self.serves(&file.key) {
                let mut here = in_memory.remove(&file.id).map(|(_, indices)| indices).unwrap_or_default();
                here.extend((0..block_size.count(file.key.size)).filter(|index| store.may_contain(&file.id, *index)));
                leaving.add(Arc::new(file.key), here);
            }
        });
        in_memory.into_values().for_each(|(key, here)| leaving.add(key, here));
        leaving
    }

    /// What no disk has yet, by file.
    fn in_memory(&self) -> BTreeMap<FileId, (Arc<FileKey>, BTreeSet<u32>)> {
        let mut found: BTreeMap<FileId, (Arc<FileKey>, BTreeSet<u32>)> = BTreeMap::new();
        for (key, index) in self.transfer.blocks_in_memory_alone() {
            if self.serves(&key) {
                found.entry(key.id()).or_insert_with(|| (key, BTreeSet::new())).1.insert(index);
            }
        }
        found
    }
}

//! The blocks that a leaving worker hands over: all that it has, to those who own it from now on.

use std::sync::Arc;

use super::service::BlockService;
use crate::cluster::{HoldJob, HoldOrder, HoldWish, Orders, orders};
use crate::error::Result;
use crate::ids::{BlockSize, FileKey};

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

impl BlockService {
    /// Has the owners of what is here take it, but for what they have no room for. The view must say that this worker is
    /// draining: then the owners are others, and ask this one first. Reads the names of all cached files from disk, and
    /// leaves out disks that hang: `Timeout` when one begins to meanwhile.
    pub async fn drain(self: &Arc<Self>) -> Result<Arc<HoldJob>> {
        let (block_size, service) = (self.transfer.block_size(), self.clone());
        let leaving = self.on_disks(move || service.leaving()).await?;
        let wish = HoldWish { lets_go: true, ..HoldWish::default() };
        Ok(HoldJob::start(&self.cluster, Arc::new(leaving), block_size, wish))
    }

    /// Files of an origin that the dataset no longer has are left out: nobody would take them, or ask for them.
    fn leaving(&self) -> Leaving {
        let (block_size, store) = (self.transfer.block_size(), &self.store);
        let mut leaving = Leaving { blocks: Vec::new(), block_size, bytes: 0 };
        store.files(|file| {
            if !self.serves(&file.key) {
                return;
            }
            let size = file.key.size;
            let indices = 0..block_size.count(size);
            let here: Vec<u32> = indices.filter(|index| store.may_contain(&file.id, *index)).collect();
            leaving.bytes += here.iter().map(|index| block_size.range(*index, size).length()).sum::<u64>();
            leaving.blocks.push((Arc::new(file.key), here));
        });
        leaving
    }
}

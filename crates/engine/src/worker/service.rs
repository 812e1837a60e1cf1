//! The blocks of one dataset, as a worker has them: where they come from, and who keeps which.

use std::collections::HashMap;
use std::sync::Arc;

use super::checksums::Checksums;
use crate::cluster::{Cluster, HandoverOrigin};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BlockSize, FileKey};
use crate::metrics::Metrics;
use crate::origin::{ObjectVersion, Origin};
use crate::store::Store;
use crate::transfer::{Source, Transfer};
use crate::wire::GetRequest;

/// One origin of the dataset, in the two ways that a worker reads from it.
#[derive(Clone)]
pub struct ServedOrigin {
    handover: Arc<dyn Origin>,
}

impl ServedOrigin {
    pub fn new(origin: Arc<dyn Origin>, cluster: &Arc<Cluster>, block_size: BlockSize) -> Self {
        ServedOrigin { handover: Arc::new(HandoverOrigin::new(origin, cluster.clone(), block_size)) }
    }

    fn source(&self, key: FileKey) -> Source {
        let object = ObjectVersion { key: key.path.clone(), size: key.size, version: key.version.clone() };
        Source::new(key, object, self.handover.clone())
    }
}

/// Serves the blocks of one dataset.
pub struct BlockService {
    pub(super) transfer: Arc<Transfer>,
    pub(super) store: Arc<Store>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) metrics: Metrics,
    pub(super) checksums: Checksums,
    origins: HashMap<Arc<str>, ServedOrigin>,
}

impl BlockService {
    pub fn new(
        transfer: Arc<Transfer>,
        store: Arc<Store>,
        cluster: Arc<Cluster>,
        origins: impl IntoIterator<Item = Arc<dyn Origin>>,
        metrics: Metrics,
    ) -> Arc<Self> {
        let block_size = transfer.block_size();
        let served = origins
            .into_iter()
            .map(|origin| (Arc::from(origin.name()), ServedOrigin::new(origin, &cluster, block_size)))
            .collect();
        Arc::new(BlockService { transfer, store, cluster, metrics, checksums: Checksums::default(), origins: served })
    }

    /// True when the file is of an origin that this worker has.
    pub(super) fn serves(&self, key: &FileKey) -> bool {
        self.origins.contains_key(&key.dataset)
    }

    /// The file and where it comes from; `NotFound` for a dataset that is not served here.
    pub(super) fn source(&self, key: FileKey, block_size: u32) -> Result<Source> {
        let own = self.transfer.block_size().bytes();
        if block_size != own {
            let message =
                format!("blocks of {block_size} bytes were asked for; this worker keeps blocks of {own} bytes");
            return Err(Error::config(message).with_hint("all members of a cluster must use one block size"));
        }
        let origin = self.origins.get(&key.dataset).ok_or_else(|| {
            let known: Vec<&str> = self.origins.keys().map(|name| &**name).collect();
            let message = format!("this worker serves {}, not {}", known.join(", "), key.dataset);
            Error::new(ErrorKind::Config, message).with_hint("all members of a cluster must have the same origins")
        })?;
        Ok(origin.source(key))
    }

    /// Where the worker is that keeps the block, if that is not for this one to do.
    pub(super) fn keeper_elsewhere(&self, source: &Source, index: u32) -> Option<String> {
        let stripe = crate::ring::stripe_of(&source.id(), index, self.transfer.block_size());
        let ring = self.cluster.ring();
        let owners = ring.owners(stripe);
        let me = self.cluster.me(&ring)?;
        let primary = owners.first().filter(|_| !owners.contains(&me))?;
        Some(ring.member(*primary).address.clone())
    }

    /// True when every block of the range is in the store, or in memory on its way there.
    pub(super) fn holds(&self, source: &Source, request: &GetRequest) -> bool {
        let mut indices = self.transfer.block_size().indices(request.range);
        indices.all(|index| {
            self.store.may_contain(&source.id(), index) || self.transfer.holds_in_memory(&source.block(index))
        })
    }
}

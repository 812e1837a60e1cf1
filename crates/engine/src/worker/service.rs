//! Requests of other processes, each decided: from the cache, by fetching, or through the worker that owns the blocks.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use serde_json::Value;

use super::checksums::Checksums;
use crate::cluster::{Cluster, HandoverOrigin, Wait};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::{BlockSize, FileKey};
use crate::metrics::Metrics;
use crate::origin::{Asker, ObjectVersion, Origin};
use crate::store::Store;
use crate::transfer::{Source, Transfer};
use crate::wire::{Chunk, ChunkSink, GetRequest, PURPOSE_WARM, PeerCommand, PeerService};

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

/// Who is to answer a request.
#[derive(Debug, PartialEq, Eq)]
enum Course {
    /// From here: what is missing is fetched and kept.
    Here,
    /// From the owner at this address: it is not ours to keep.
    PassOn(String),
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

    fn course(&self, request: &GetRequest, source: &Source) -> Course {
        if request.direct || request.cached_only || self.holds(source, request) {
            return Course::Here;
        }
        let index = self.transfer.block_size().index_of(request.range.start);
        self.keeper_elsewhere(source, index).map_or(Course::Here, Course::PassOn)
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
    fn holds(&self, source: &Source, request: &GetRequest) -> bool {
        let mut indices = self.transfer.block_size().indices(request.range);
        indices.all(|index| {
            self.store.may_contain(&source.id(), index) || self.transfer.holds_in_memory(&source.block(index))
        })
    }

    /// Notes for the time of the answer that another worker's fill waits for ours. `Busy` when ours may wait for that one.
    fn let_wait(&self, request: &GetRequest, source: &Source) -> Result<Option<Wait>> {
        let Some(fill) = request.fill.filter(|fill| !fill.has_begun && !request.cached_only) else { return Ok(None) };
        let block_size = self.transfer.block_size();
        let stripe = crate::ring::stripe_of(&source.id(), block_size.index_of(request.range.start), block_size);
        let wait = self.cluster.be_waited_for(stripe, fill.epoch).ok_or_else(|| {
            let message = "this worker waits for another one's fill of these bytes, by a view as old or older";
            Error::new(ErrorKind::Busy, message).with_retry(Retry::Temporary)
        })?;
        Ok(Some(wait))
    }

    /// True when the owner answered; false when it did not and nothing has been sent yet.
    async fn pass_on(&self, address: &str, request: &GetRequest, sink: &ChunkSink) -> Result<bool> {
        let request = GetRequest { direct: true, ..request.clone() };
        let Ok(Some(mut stream)) = self.cluster.ask(address, &request).await else { return Ok(false) };
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            self.metrics.cluster_forwarded_bytes.inc_by(piece.len() as u64);
            sink.send(Chunk::Memory(piece)).await?;
        }
        Ok(true)
    }
}

#[async_trait]
impl PeerService for BlockService {
    async fn get(&self, request: GetRequest, sink: ChunkSink) -> Result<()> {
        let source = self.source(request.key.clone(), request.block_size)?;
        if request.cached_only && !self.holds(&source, &request) {
            return sink.absent().await;
        }
        if let Course::PassOn(address) = self.course(&request, &source)
            && self.pass_on(&address, &request, &sink).await?
        {
            return Ok(());
        }
        let _waiting = self.let_wait(&request, &source)?;
        let asker = if request.purpose == PURPOSE_WARM { Asker::Load } else { Asker::Reader };
        asker.ask(self.serve(&source, &request, &sink)).await
    }

    async fn command(&self, command: PeerCommand) -> Result<Value> {
        self.carry_out(command).await
    }
}

//! Requests of other processes, each decided: from the cache, by fetching, or through the worker that owns the blocks.

use async_trait::async_trait;
use futures::StreamExt;
use serde_json::Value;

use super::service::BlockService;
use crate::cluster::Wait;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::origin::Asker;
use crate::transfer::Source;
use crate::wire::{Chunk, ChunkSink, GetRequest, PURPOSE_WARM, PeerCommand, PeerService};

/// Who is to answer a request.
#[derive(Debug, PartialEq, Eq)]
enum Course {
    /// From here: what is missing is fetched and kept.
    Here,
    /// From the owner at this address: it is not ours to keep.
    PassOn(String),
}

impl BlockService {
    fn course(&self, request: &GetRequest, source: &Source) -> Course {
        if request.direct || request.cached_only || self.holds(source, request) {
            return Course::Here;
        }
        let index = self.transfer.block_size().index_of(request.range.start);
        self.keeper_elsewhere(source, index).map_or(Course::Here, Course::PassOn)
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

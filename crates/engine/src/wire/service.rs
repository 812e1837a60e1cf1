//! The interface of a peer server to the owner of the data.

use async_trait::async_trait;

use crate::error::Result;
use crate::wire::message::{GetRequest, PeerCommand};
use crate::wire::sink::ChunkSink;

/// Answers requests of peers. A call whose client goes away is dropped where it waits.
#[async_trait]
pub trait PeerService: Send + Sync + 'static {
    /// Sends exactly the bytes of the request's range to `sink`, or says `ChunkSink::absent` to a `cached_only` request
    /// for what is not cached, or fails.
    async fn get(&self, request: GetRequest, sink: ChunkSink) -> Result<()>;

    async fn command(&self, command: PeerCommand) -> Result<serde_json::Value>;
}

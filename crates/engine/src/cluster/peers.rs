//! The interface of the cluster to the network.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::Result;
use crate::origin::ByteStream;
use crate::wire::{GetRequest, PeerClient, PeerCommand};

/// How long a probe, or a doubt, waits for an answer.
pub(super) const PROBE_PATIENCE: Duration = Duration::from_secs(2);

/// Workers by address.
#[async_trait]
pub trait Peers: Send + Sync + 'static {
    /// Streams what was asked for; `None` when only cached bytes were wanted and it has none. Errors that the worker
    /// itself reports carry the context `REPORTED`; all others are of the way to it.
    async fn get(&self, address: &str, request: &GetRequest) -> Result<Option<ByteStream>>;

    /// Has a command carried out; what the worker reports.
    async fn command(&self, address: &str, command: &PeerCommand) -> Result<Value>;

    /// True when the worker answers.
    async fn is_alive(&self, address: &str) -> bool {
        let asked = self.command(address, &PeerCommand::Status);
        matches!(tokio::time::timeout(PROBE_PATIENCE, asked).await, Ok(Ok(_)))
    }
}

#[async_trait]
impl Peers for PeerClient {
    async fn get(&self, address: &str, request: &GetRequest) -> Result<Option<ByteStream>> {
        PeerClient::get(self, address, request).await
    }

    async fn command(&self, address: &str, command: &PeerCommand) -> Result<Value> {
        PeerClient::command(self, address, command).await
    }
}

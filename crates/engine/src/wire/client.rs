//! Asks peers: keeps a few connections to each address, opens them when needed, and spreads requests over them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{Metrics, PeerMetrics, ReasonLabel};
use crate::sync::Mutex;
use crate::wire::answer::WireAnswer;
use crate::wire::client_options::ClientOptions;
use crate::wire::frame::{Kind, damaged};
use crate::wire::message::{GetRequest, PeerCommand};
use crate::wire::peer::{Dial, Peer};
use crate::wire::read::ended;
use crate::wire::security::ClientSecurity;

/// A longer report is refused.
const MAX_REPORT_BYTES: usize = 16 << 20;
/// Addresses that are remembered although nobody is connected to them.
const MAX_IDLE_PEERS: usize = 256;

/// The content of an answer, in order; it ends with an error or with the last byte asked for.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// Connections to all peers. Cheap to share behind an `Arc`; must be used inside a tokio runtime.
pub struct PeerClient {
    dial: Arc<Dial>,
    peers: Mutex<HashMap<Box<str>, Arc<Peer>>>,
}

impl PeerClient {
    pub fn new(security: ClientSecurity, options: ClientOptions, metrics: &Metrics) -> PeerClient {
        PeerClient {
            dial: Arc::new(Dial { security, options, metrics: metrics.peer.clone() }),
            peers: Mutex::default(),
        }
    }

    /// The bytes of a range from the peer at `address` (`host:port`), once the first of them are here; `None` when the
    /// request is `cached_only` and the peer does not have them.
    ///
    /// Errors of the connection are temporary: `Unreachable`, `Timeout`, `Corrupt`. The stream ends with such an error, too,
    /// when the connection is lost; it never ends early without one. Dropping the stream, or this call, cancels the request.
    pub async fn get(&self, address: &str, request: &GetRequest) -> Result<Option<ByteStream>> {
        let length = request.range.length();
        let mut answer = self.ask(address, Kind::Get, |version| request.encode(version), Some(length)).await?;
        match answer.begins().await? {
            true => Ok(Some(answer.boxed())),
            false if request.cached_only => Ok(None),
            false => {
                Err(damaged("a peer has nothing for a request that it should have fetched")
                    .with_context("peer", address))
            }
        }
    }

    /// What the peer at `address` says to a command.
    pub async fn command(&self, address: &str, command: &PeerCommand) -> Result<serde_json::Value> {
        let mut answer = self.ask(address, Kind::Command, |_| command.encode(), None).await?;
        if !answer.begins().await? {
            return Err(damaged("a peer has no answer to a command").with_context("peer", address));
        }
        let report = answer.try_fold(Vec::new(), |mut report, bytes| async move {
            if report.len() + bytes.len() > MAX_REPORT_BYTES {
                return Err(Error::new(ErrorKind::Unexpected, "the report of a peer is too long"));
            }
            report.extend_from_slice(&bytes);
            Ok(report)
        });
        serde_json::from_slice(&report.await?)
            .map_err(|_| damaged("the report of a peer is not JSON").with_context("peer", address))
    }

    /// `message` gives the request as a peer of that version understands it.
    async fn ask(
        &self,
        address: &str,
        kind: Kind,
        message: impl Fn(u16) -> Result<Vec<u8>>,
        expected: Option<u64>,
    ) -> Result<WireAnswer> {
        let asking = async {
            // A connection may end between being chosen and being used; nothing is lost by taking another.
            for _ in 0..3 {
                let link = self.peer(address).link().await?;
                if let Some(asked) = link.ask(kind, &message(link.version())?, expected).await {
                    return Ok(WireAnswer::new(link, asked, address.into(), expected.unwrap_or(u64::MAX)));
                }
            }
            Err(ended("each time it was opened", None))
        };
        asking.await.map_err(|error: Error| {
            count(&self.dial.metrics, &error);
            error.with_context("peer", address)
        })
    }

    fn peer(&self, address: &str) -> Arc<Peer> {
        let mut peers = self.peers.lock();
        if let Some(peer) = peers.get(address) {
            return peer.clone();
        }
        if peers.len() >= MAX_IDLE_PEERS {
            peers.retain(|_, peer| Arc::strong_count(peer) > 1 || peer.is_connected());
        }
        let peer = Arc::new(Peer::new(address, self.dial.clone()));
        peers.insert(address.into(), peer.clone());
        peer
    }
}

fn count(metrics: &PeerMetrics, error: &Error) {
    metrics.errors.get_or_create(&ReasonLabel { reason: error.kind().name() }).inc();
}

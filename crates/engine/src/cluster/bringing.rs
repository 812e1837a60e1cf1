//! Having the worker of this machine store blocks that a mount reads from its files then: no byte crosses a connection.

use std::sync::Arc;

use tokio::time::Instant;

use super::Cluster;
use super::verdict::is_of_object;
use super::wanted::Wanted;
use crate::error::Result;
use crate::ids::ByteRange;
use crate::ring::{Ring, StripeId};
use crate::wire::PeerCommand;

impl Cluster {
    /// How many bytes of `segment`, which lies in one stripe, are in the files of this machine's worker, from its start on,
    /// as soon as those of its first block are. 0 when the stripe is not that worker's, or it fails or lags; an error when
    /// it answers that the object itself cannot be had.
    pub(super) async fn bring(self: &Arc<Self>, wanted: &Wanted, segment: ByteRange) -> Result<u64> {
        let ring = self.ring();
        let Some(worker) = self.lender(&ring, wanted.stripe(segment.start)) else { return Ok(0) };
        let blocks = wanted.block_size.indices(segment);
        let (key, first, count) = ((*wanted.key).clone(), blocks.start, blocks.end - blocks.start);
        let command = PeerCommand::Bring { key, first, count, block_size: wanted.block_size.bytes() };
        let report = match self.peers.command(&ring.member(worker).address, &command).await {
            Err(error) if !is_of_object(&error) => {
                tracing::debug!(%error, "blocks were not brought");
                return Ok(0);
            }
            answer => answer?,
        };
        let stored = report.get("stored_blocks").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let end = u64::from(first) * u64::from(wanted.block_size.bytes())
            + stored.min(u64::from(count)) * u64::from(wanted.block_size.bytes());
        let bytes = end.min(segment.end).saturating_sub(segment.start);
        self.metrics.cluster_brought_bytes.inc_by(bytes);
        Ok(bytes)
    }

    /// The worker that owns the stripe and lends its files to this machine.
    fn lender(&self, ring: &Ring, stripe: StripeId) -> Option<usize> {
        let lends = self.lease_socket()?;
        let now = Instant::now();
        ring.owners(stripe).into_iter().find(|owner| {
            let member = ring.member(*owner);
            let is_here = member.node == self.options.node && member.lease_socket.as_ref() == Some(&lends);
            is_here && !self.suspects.contains(&member.id) && !self.slow.contains(&member.id, now)
        })
    }
}

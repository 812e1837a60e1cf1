//! Telling a member that what it sent did not match its checksum: it may have sent a cached block as it lies there, and
//! know nothing of bits that rotted since it last compared them. It compares the block now, drops it if it is wrong, and
//! takes it anew for the next who asks.

use std::sync::Arc;

use super::Cluster;
use super::peers::PROBE_PATIENCE;
use super::wanted::Wanted;
use crate::error::Error;
use crate::ring::Ring;
use crate::wire::PeerCommand;

impl Cluster {
    /// Has `member` look at the block that byte `offset` lies in, in the background. `error` says how it came.
    pub(super) fn doubt(self: &Arc<Self>, ring: &Ring, member: usize, wanted: &Wanted, offset: u64, error: &Error) {
        let (cluster, member) = (self.clone(), ring.member(member).clone());
        let first = wanted.block_size.index_of(offset);
        let path = String::from_utf8_lossy(&wanted.key.path).into_owned();
        tracing::warn!(member = %member.id.0, %path, block = first, reason = %error, "damage came from a worker; it looks again");
        let key = (*wanted.key).clone();
        let command = PeerCommand::Verify { key, first, count: 1, block_size: wanted.block_size.bytes() };
        self.runtime.spawn(async move {
            let asked = cluster.peers.command(&member.address, &command);
            let answer = tokio::time::timeout(PROBE_PATIENCE, asked).await;
            tracing::debug!(member = %member.id.0, ?answer, "looked again");
            cluster.announce();
        });
    }
}

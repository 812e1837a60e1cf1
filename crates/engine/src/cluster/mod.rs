//! Reading from the workers of a cluster: whom to ask for which bytes, and what to do when one does not answer.
//!
//! `MemberOrigin` is what a mount reads from: an `Origin` whose bytes come from workers. `HandoverOrigin` is what a
//! worker fills its cache from: previous owners and the primary are asked before the real origin, so that the cluster
//! takes each byte from the storage system once. Both stand below `transfer`, which knows nothing of clusters.
//!
//! - `segments`, `candidates`, `verdict`: pure decisions;
//! - `suspects`, `slow`, `hedging`: what was learnt about members that fail or lag; `given_up`: reads that waited in vain;
//! - `peers`: the one thing asked of the network, so that tests can drive every failure;
//! - `reading`: one segment of one file, from member to member until it is whole; `inquiry`: whom to ask for the rest of
//!   it; `body`: what one member answers;
//! - `bringing`: having the worker of this machine store what is read from its files then;
//! - `part`: one stretch of a file, as a worker fills its cache with it;
//! - `waits`: who waits for whose fill, so that no circle of them closes;
//! - `orders`, `holding`: having owners hold blocks, for loads and for workers that leave.

mod body;
mod bringing;
mod candidates;
mod doubt;
mod given_up;
mod handover_origin;
mod hedging;
mod holding;
mod inquiry;
mod member_origin;
mod options;
mod orders;
mod part;
mod peers;
mod reading;
mod segments;
mod slow;
mod suspects;
#[cfg(test)]
mod tests;
mod verdict;
mod waits;
mod wanted;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::ids::{BlockSize, FileId};
use crate::metrics::Metrics;
use crate::origin::ByteStream;
use crate::ring::{Ring, StripeId, View, stripe_of};
use crate::wire::{GetRequest, PeerCommand};

pub use handover_origin::HandoverOrigin;
pub use holding::{HoldJob, HoldProgress, HoldState, HoldWish, Orders};
pub use member_origin::MemberOrigin;
pub use options::{ClusterOptions, Identity};
pub use orders::{HoldOrder, orders};
pub use peers::Peers;
pub use waits::Wait;

use given_up::GivenUp;
use hedging::Hedging;
use slow::Slow;
use suspects::Suspects;
use waits::Waits;

/// How long between two looks at a member that failed.
const PROBE_EVERY: Duration = Duration::from_millis(500);

/// What one process knows of its cluster: the view, who seems not to answer, and the connections.
pub struct Cluster {
    ring: ArcSwap<Ring>,
    /// Told of every change that may let a waiting read go on: a new view, a member that answers again.
    changed: watch::Sender<u64>,
    peers: Arc<dyn Peers>,
    suspects: Suspects,
    slow: Slow,
    given_up: GivenUp,
    hedging: Hedging,
    waits: Arc<Waits>,
    options: ClusterOptions,
    metrics: Metrics,
    runtime: Handle,
    closing: CancellationToken,
}

impl Cluster {
    /// A cluster as `view` says. `Config` when the view makes no sense.
    pub fn new(
        view: View,
        peers: Arc<dyn Peers>,
        options: ClusterOptions,
        metrics: Metrics,
        runtime: Handle,
    ) -> Result<Arc<Self>> {
        let ring = Ring::new(view)?;
        note_view(&metrics, &ring);
        Ok(Arc::new(Cluster {
            ring: ArcSwap::from_pointee(ring),
            changed: watch::Sender::new(0),
            peers,
            suspects: Suspects::default(),
            slow: Slow::default(),
            given_up: GivenUp::default(),
            hedging: Hedging::new(options.identity.is_some()),
            waits: Arc::default(),
            options,
            metrics,
            runtime,
            closing: CancellationToken::new(),
        }))
    }

    /// Goes by `view` from now on; reads under way go on where they are.
    pub fn set_view(&self, view: View) -> Result<()> {
        let ring = Ring::new(view)?;
        self.suspects.keep_only(|member| ring.view().members.iter().any(|known| known.id == *member));
        note_view(&self.metrics, &ring);
        self.ring.store(Arc::new(ring));
        self.announce();
        Ok(())
    }

    /// The members and their places.
    pub fn ring(&self) -> Arc<Ring> {
        self.ring.load_full()
    }

    pub fn options(&self) -> &ClusterOptions {
        &self.options
    }

    /// The number of this process's own member in `ring`, when it is a worker of it.
    pub fn me(&self, ring: &Ring) -> Option<usize> {
        let identity = self.options.identity.as_ref()?;
        ring.view().members.iter().position(|member| member.id == identity.member)
    }

    /// Asks a member as it is: no other one in its place.
    pub async fn ask(&self, address: &str, request: &GetRequest) -> Result<Option<ByteStream>> {
        self.peers.get(address, request).await
    }

    /// A fill of another member, which goes by the view of `epoch`, may wait for ours of this stripe as long as the answer
    /// lives. `None` when it must not, since ours may wait for it in the end.
    pub fn be_waited_for(&self, stripe: StripeId, epoch: u64) -> Option<Wait> {
        self.waits.be_waited_for(stripe, epoch)
    }

    /// Where the members are.
    pub fn addresses(&self) -> Vec<String> {
        self.ring().view().members.iter().map(|member| member.address.clone()).collect()
    }

    /// Has the member at `address` carry out a command; what it reports.
    pub async fn tell(&self, address: &str, command: &PeerCommand) -> Result<Value> {
        self.peers.command(address, command).await
    }

    /// Where the worker on this machine lends its files, if there is one that does.
    pub fn lease_socket(&self) -> Option<PathBuf> {
        let ring = self.ring();
        let mut here = ring.view().members.iter().filter(|member| member.node == self.options.node);
        here.find_map(|member| member.lease_socket.clone())
    }

    /// True when a worker on this machine owns the block.
    pub fn is_local(&self, file: &FileId, index: u32, block_size: BlockSize) -> bool {
        let ring = self.ring();
        let owners = ring.owners(stripe_of(file, index, block_size));
        owners.into_iter().any(|owner| ring.member(owner).node == self.options.node)
    }

    /// Ends the probing of members, and jobs.
    pub fn close(&self) {
        self.closing.cancel();
    }

    fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Leaves this member to the last until it answers a probe.
    fn suspect(self: &Arc<Self>, ring: &Ring, member: usize, reason: &crate::error::Error) {
        let (id, address) = (ring.member(member).id.clone(), ring.member(member).address.clone());
        if !self.suspects.add(&id) {
            return;
        }
        tracing::warn!(member = %id.0, %address, %reason, "worker does not answer; asking others until it does");
        self.metrics.cluster_suspects.set(self.suspects.count() as u64);
        let cluster = self.clone();
        self.runtime.spawn(async move {
            if cluster.probe(&id, &address).await {
                tracing::info!(member = %id.0, "worker answers again");
            }
            cluster.suspects.remove(&id);
            cluster.metrics.cluster_suspects.set(cluster.suspects.count() as u64);
            cluster.announce();
        });
    }

    /// Whether a member whose answer lags is slow itself, by comparison with any other one. One that is comes last for a
    /// while.
    async fn is_slow(&self, ring: &Ring, late: usize) -> bool {
        let id = &ring.member(late).id;
        if self.slow.contains(id, Instant::now()) {
            return true;
        }
        let me = self.me(ring);
        let mut others = (0..ring.view().members.len()).filter(|other| *other != late && Some(*other) != me);
        let yardstick = others.find(|other| !self.suspects.contains(&ring.member(*other).id));
        let alive = |member: usize| self.peers.is_alive(&ring.member(member).address);
        let is_slow = slow::is_slow(alive(late), yardstick.map(alive)).await;
        if is_slow && !self.slow.contains(id, Instant::now()) {
            let lasting_s = self.slow.note(id, Instant::now()).as_secs();
            tracing::warn!(member = %id.0, lasting_s, "worker is slow; asking others for a while");
        }
        is_slow
    }

    /// Asks again and again until the member answers (true), or is no longer known.
    async fn probe(&self, id: &crate::ring::MemberId, address: &str) -> bool {
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return false,
                () = tokio::time::sleep(PROBE_EVERY) => {}
            }
            if !self.suspects.contains(id) {
                return false;
            }
            if self.peers.is_alive(address).await {
                return true;
            }
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ring = self.ring.load();
        write!(f, "Cluster(epoch {}, {} members)", ring.view().epoch, ring.view().members.len())
    }
}

fn note_view(metrics: &Metrics, ring: &Ring) {
    metrics.cluster_epoch.set(ring.view().epoch);
    metrics.cluster_members.set(ring.view().members.len() as u64);
}

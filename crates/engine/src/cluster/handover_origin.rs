//! The origin of a worker: other workers that may have the bytes are asked before the real one.
//!
//! A primary that lacks a block asks those who owned it before; another owner asks the primary, which fetches for both
//! (`read_shared`); a stand-in asks the owners for what they have cached. The real origin is last. So a byte is taken from
//! the storage system once, however members come and go. Only when a worker lags is the origin asked for what it may be
//! fetching.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Cluster;
use super::part::{Part, Places, Step, Told};
use super::segments::segments;
use super::wanted::Wanted;
use crate::checksum::Checksum;
use crate::error::Result;
use crate::ids::{BlockSize, ByteRange};
use crate::origin::{self, ByteStream, Capability, Exclusion, ListedObject, ObjectVersion, Origin, WholeObject};
use crate::ring::{Ring, STRIPE_BYTES, StripeId};
use crate::wire::Fill;

/// Previous owners that are asked for a block.
const MOST_PREVIOUS: usize = 3;

/// One origin of a dataset, as a worker fills its cache from it.
pub struct HandoverOrigin {
    inner: Arc<dyn Origin>,
    name: Arc<str>,
    cluster: Arc<Cluster>,
    block_size: BlockSize,
}

/// Whom to ask, in this order, for a stripe.
pub(super) fn steps(ring: &Ring, me: Option<usize>, stripe: StripeId, is_suspect: impl Fn(usize) -> bool) -> Vec<Step> {
    let Some(me) = me else { return vec![Step::Origin] };
    let owners = ring.owners(stripe);
    let mut steps: Vec<Step> = match owners.iter().position(|owner| *owner == me) {
        Some(0) => ring.previous_owners(stripe, me, MOST_PREVIOUS).into_iter().map(Step::Cached).collect(),
        Some(_) => vec![Step::Fetch(owners[0])],
        None => owners.into_iter().map(Step::Cached).collect(),
    };
    steps.retain(|step| !matches!(step, Step::Cached(member) | Step::Fetch(member) if is_suspect(*member)));
    steps.push(Step::Origin);
    steps
}

impl HandoverOrigin {
    pub fn new(inner: Arc<dyn Origin>, cluster: Arc<Cluster>, block_size: BlockSize) -> Self {
        HandoverOrigin { name: inner.name().into(), inner, cluster, block_size }
    }
}

#[async_trait]
impl Origin for HandoverOrigin {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn check(&self) -> Result<()> {
        self.inner.check().await
    }

    async fn list(&self, excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        self.inner.list(excluded, sink).await
    }

    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        self.read_from(object, range, &Told::default()).await
    }

    /// Told is a checksum where the origin itself answers; what another worker has was compared there.
    async fn read_whole(&self, object: &ObjectVersion) -> Result<WholeObject> {
        let told = Told::default();
        let body = self.read_from(object, ByteRange::new(0, object.size), &told).await?;
        let told = *told.lock();
        Ok((body, told))
    }

    async fn checksum(&self, object: &ObjectVersion) -> Result<Option<Checksum>> {
        self.inner.checksum(object).await
    }

    async fn part(&self, object: &ObjectVersion, number: u32) -> Result<Option<origin::Part>> {
        self.inner.part(object, number).await
    }

    fn shared_until(&self, object: &ObjectVersion, range: ByteRange) -> Option<u64> {
        let ring = self.cluster.ring();
        let me = self.cluster.me(&ring)?;
        let stripe = self.wanted(object).stripe(range.start);
        let owners = ring.owners(stripe);
        if !owners.contains(&me) || owners.first() == Some(&me) {
            return None;
        }
        // Blocks larger than a stripe are a stripe each.
        let stripe_bytes = STRIPE_BYTES.max(u64::from(self.block_size.bytes()));
        Some(((range.start / stripe_bytes + 1) * stripe_bytes).min(range.end))
    }

    fn read_shared(&self, object: &ObjectVersion, range: ByteRange, has_begun: bool) -> ByteStream {
        let ring = self.cluster.ring();
        let wanted = self.wanted(object);
        let (stripe, epoch) = (wanted.stripe(range.start), ring.view().epoch);
        let wait = if has_begun { None } else { self.cluster.waits.wait(stripe, epoch) };
        let mut steps = self.steps(&ring, &wanted, range.start);
        steps.retain(|step| matches!(step, Step::Fetch(_)) && (has_begun || wait.is_some()));
        let fill = Some(Fill { epoch, has_begun });
        let part =
            Part { places: self.places(ring, wanted, object, fill, &Told::default()), steps, rest: range, body: None };
        // The wait ends with the stream.
        let waiting = futures::stream::unfold((part.into_stream(), wait), |(mut stream, wait)| async move {
            let piece = stream.next().await?;
            Some((piece, (stream, wait)))
        });
        waiting.boxed()
    }
}

impl HandoverOrigin {
    /// The bytes from whoever has them without waiting for another's fill; `told` is filled by then if that is the origin,
    /// and it tells a checksum.
    async fn read_from(&self, object: &ObjectVersion, range: ByteRange, told: &Told) -> Result<ByteStream> {
        let wanted = self.wanted(object);
        let ring = self.cluster.ring();
        let places = self.places(ring.clone(), wanted.clone(), object, None, told);
        let parts = self.merged(&ring, &wanted, range.clamp_to(object.size));
        let mut parts = Box::pin(futures::stream::iter(parts).then(move |(steps, rest)| {
            let mut part = Part { places: places.clone(), steps, rest, body: None };
            async move { part.open().await.map(|()| part.into_stream()) }
        }));
        let Some(first) = parts.next().await else { return Ok(futures::stream::empty().boxed()) };
        let first = first?;
        Ok(futures::stream::once(async { Ok(first) }).chain(parts).try_flatten().boxed())
    }

    /// The segments of `range`, neighbours joined that come straight from the origin: one long request is better there.
    fn merged(&self, ring: &Ring, wanted: &Wanted, range: ByteRange) -> Vec<(Vec<Step>, ByteRange)> {
        let mut parts: Vec<(Vec<Step>, ByteRange)> = Vec::new();
        for segment in segments(range) {
            let mut steps = self.steps(ring, wanted, segment.start);
            steps.retain(|step| !matches!(step, Step::Fetch(_)));
            match parts.last_mut() {
                Some((before, joined)) if steps == [Step::Origin] && *before == steps => joined.end = segment.end,
                _ => parts.push((steps, segment)),
            }
        }
        parts
    }

    fn steps(&self, ring: &Ring, wanted: &Wanted, offset: u64) -> Vec<Step> {
        let now = Instant::now();
        let is_suspect = |member: usize| {
            let id = &ring.member(member).id;
            self.cluster.suspects.contains(id) || self.cluster.slow.contains(id, now)
        };
        steps(ring, self.cluster.me(ring), wanted.stripe(offset), is_suspect)
    }

    fn wanted(&self, object: &ObjectVersion) -> Wanted {
        Wanted::of(&self.name, object, self.block_size)
    }

    fn places(
        &self,
        ring: Arc<Ring>,
        wanted: Wanted,
        object: &ObjectVersion,
        fill: Option<Fill>,
        told: &Told,
    ) -> Places {
        let (inner, cluster, object, told) = (self.inner.clone(), self.cluster.clone(), object.clone(), told.clone());
        Places { inner, cluster, ring, wanted, object, fill, told }
    }
}

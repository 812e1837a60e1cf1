//! The origin of a worker: other workers that may have the bytes are asked before the real one.
//!
//! A primary that lacks a block asks those who owned it before; another owner asks the primary, which fetches for both;
//! a stand-in asks the owners for what they have cached. The real origin is last. So a byte is taken from the storage
//! system once, however members come and go. Only when a worker lags is the origin asked for what it may be fetching.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Cluster;
use super::body::{Answer, Body, Helper, Step as Event};
use super::inquiry::Wanted;
use super::segments::segments;
use super::verdict::{is_damage, is_of_worker};
use crate::checksum::Checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BlockSize, ByteRange, FileKey};
use crate::origin::{ByteStream, Capability, ListedObject, ObjectVersion, Origin, WholeObject};
use crate::ring::{Ring, StripeId};
use crate::sync::Mutex;
use crate::wire::{GetRequest, REPORTED};

/// Previous owners that are asked for a block.
const MOST_PREVIOUS: usize = 3;
/// How long a primary may take to its first byte before the origin is asked instead. It may wait for a slow origin
/// itself; but two members that each take the other for the primary must not wait for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// One origin of a dataset, as a worker fills its cache from it.
pub struct HandoverOrigin {
    inner: Arc<dyn Origin>,
    name: Arc<str>,
    cluster: Arc<Cluster>,
    block_size: BlockSize,
}

/// Where a segment may come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Only what the member has cached.
    Cached(usize),
    /// The member may fetch it from the origin.
    Fetch(usize),
    Origin,
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

    async fn list(&self, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        self.inner.list(sink).await
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
}

impl HandoverOrigin {
    /// The bytes from whoever has them; `told` is filled by then if that is the origin, and it tells a checksum.
    async fn read_from(&self, object: &ObjectVersion, range: ByteRange, told: &Told) -> Result<ByteStream> {
        let key = FileKey {
            dataset: self.name.clone(),
            path: object.key.clone(),
            size: object.size,
            version: object.version.clone(),
        };
        let wanted = Wanted { key: Arc::new(key), block_size: self.block_size };
        let (inner, cluster, object, told) = (self.inner.clone(), self.cluster.clone(), object.clone(), told.clone());
        let mut parts = Box::pin(futures::stream::iter(merged(&cluster, &wanted, range.clamp_to(object.size))).then(
            move |(steps, ring, rest)| {
                let (inner, cluster) = (inner.clone(), cluster.clone());
                let (wanted, object, told) = (wanted.clone(), object.clone(), told.clone());
                let places = Places { inner, cluster, ring, wanted, object, told };
                let mut part = Part { places, steps, rest, body: None };
                async move { part.open().await.map(|()| part.into_stream()) }
            },
        ));
        let Some(first) = parts.next().await else { return Ok(futures::stream::empty().boxed()) };
        let first = first?;
        Ok(futures::stream::once(async { Ok(first) }).chain(parts).try_flatten().boxed())
    }
}

/// The segments of `range`, neighbours joined that come straight from the origin: one long request is better there.
fn merged(cluster: &Arc<Cluster>, wanted: &Wanted, range: ByteRange) -> Vec<(Vec<Step>, Arc<Ring>, ByteRange)> {
    let ring = cluster.ring();
    let me = cluster.me(&ring);
    let mut parts: Vec<(Vec<Step>, Arc<Ring>, ByteRange)> = Vec::new();
    for segment in segments(range) {
        let now = Instant::now();
        let is_suspect = |member: usize| {
            let id = &ring.member(member).id;
            cluster.suspects.contains(id) || cluster.slow.contains(id, now)
        };
        let steps = steps(&ring, me, wanted.stripe(segment.start), is_suspect);
        match parts.last_mut() {
            Some((before, _, joined)) if steps == [Step::Origin] && *before == steps => joined.end = segment.end,
            _ => parts.push((steps, ring.clone(), segment)),
        }
    }
    parts
}

/// A stretch that comes from the same places.
struct Part {
    places: Places,
    /// What is still to be tried, in order.
    steps: Vec<Step>,
    rest: ByteRange,
    body: Option<Body<Step>>,
}

/// How each place is asked.
#[derive(Clone)]
struct Places {
    inner: Arc<dyn Origin>,
    cluster: Arc<Cluster>,
    ring: Arc<Ring>,
    wanted: Wanted,
    object: ObjectVersion,
    told: Told,
}

/// What the origin told of the whole object, if it was asked.
type Told = Arc<Mutex<Option<Checksum>>>;

impl Part {
    fn into_stream(self) -> ByteStream {
        futures::stream::unfold(Some(self), |part| async { part?.next().await }).boxed()
    }

    /// Waits for the first bytes of whoever has them. Fails with what the origin says.
    async fn open(&mut self) -> Result<()> {
        while self.body.is_none() && !self.rest.is_empty() {
            let step = if self.steps.is_empty() { Step::Origin } else { self.steps.remove(0) };
            match self.places.open(&step, self.rest).await {
                Ok(Some(body)) => self.body = Some(body),
                Ok(None) => {}
                Err(error) if step == Step::Origin => return Err(error),
                Err(error) => self.places.member_failed(&step, self.rest.start, &error),
            }
        }
        Ok(())
    }

    /// So many more bytes have been handed on.
    fn note(&mut self, bytes: u64) {
        self.rest.start += bytes;
        let Some(body) = self.body.as_ref().filter(|body| body.from != Step::Origin) else { return };
        let cluster = &self.places.cluster;
        cluster.metrics.cluster_read_bytes.inc_by(bytes);
        if self.rest.is_empty() {
            cluster.hedging.note_segment(body.waited, body.asked_bytes);
        }
    }

    async fn next(mut self) -> Option<(Result<Bytes>, Option<Self>)> {
        while !self.rest.is_empty() {
            if let Err(error) = self.open().await {
                return Some((Err(error), None));
            }
            let (places, rest, body) = (&self.places, self.rest, self.body.as_mut()?);
            let late = body.from.clone();
            let error = match body.next(rest.start, || places.rescuer(&late, rest)).await {
                Event::Piece(piece) if piece.len() as u64 <= rest.length() => {
                    self.note(piece.len() as u64);
                    return Some((Ok(piece), Some(self)));
                }
                Event::Helped(other) => {
                    *body = *other;
                    continue;
                }
                Event::Piece(_) => Error::new(ErrorKind::Corrupt, "more bytes came than were asked for"),
                Event::Failed(error) => error,
                Event::Ended => Error::new(ErrorKind::Corrupt, "fewer bytes came than were asked for"),
            };
            let step = self.body.take()?.from;
            if step == Step::Origin {
                return Some((Err(error), None));
            }
            self.places.member_failed(&step, rest.start, &error);
        }
        None
    }
}

impl Places {
    /// The first bytes from `step`, or from the origin if a member lags.
    async fn open(&self, step: &Step, rest: ByteRange) -> Result<Option<Body<Step>>> {
        let started = Instant::now();
        let lag = self.cluster.hedging.lag(rest.length());
        let help = async {
            tokio::time::sleep(lag).await;
            match self.clone().rescue(step.clone(), rest).await {
                Some(body) => body,
                None => std::future::pending().await,
            }
        };
        let stream = tokio::select! {
            biased;
            stream = self.start(step, rest) => stream?,
            body = help => return Ok(Some(body)),
        };
        if *step != Step::Origin {
            self.cluster.hedging.note(started.elapsed());
        }
        Ok(stream.map(|stream| Body::new(step.clone(), Answer { stream, range: rest, lag, started })))
    }

    fn rescuer(&self, late: &Step, rest: ByteRange) -> Helper<Step> {
        Box::pin(self.clone().rescue(late.clone(), rest))
    }

    /// The rest from the origin in the place of `late`; `None` when that is the origin itself, or not slow.
    async fn rescue(self, late: Step, rest: ByteRange) -> Option<Body<Step>> {
        let (Step::Cached(member) | Step::Fetch(member)) = late else { return None };
        let (cluster, started) = (&self.cluster, Instant::now());
        if !cluster.is_slow(&self.ring, member).await {
            return None;
        }
        cluster.metrics.cluster_hedges.inc();
        let stream = self.inner.read(&self.object, rest).await.ok()?;
        let lag = cluster.hedging.lag(rest.length());
        Some(Body::new(Step::Origin, Answer { stream, range: rest, lag, started }))
    }

    async fn start(&self, step: &Step, rest: ByteRange) -> Result<Option<ByteStream>> {
        let (member, cached_only) = match step {
            Step::Origin => return self.start_at_origin(rest).await.map(Some),
            Step::Cached(member) => (*member, true),
            Step::Fetch(member) => (*member, false),
        };
        let request = GetRequest { cached_only, direct: true, ..self.wanted.request(rest) };
        let asked = self.cluster.peers.get(&self.ring.member(member).address, &request);
        tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Timeout, "the primary has not begun to answer")
                .with_context(REPORTED, "by nobody"))
        })
    }

    async fn start_at_origin(&self, rest: ByteRange) -> Result<ByteStream> {
        if rest != ByteRange::new(0, self.object.size) {
            return self.inner.read(&self.object, rest).await;
        }
        let (body, told) = self.inner.read_whole(&self.object).await?;
        *self.told.lock() = told;
        Ok(body)
    }

    fn member_failed(&self, step: &Step, offset: u64, error: &Error) {
        let (Step::Cached(member) | Step::Fetch(member)) = step else { return };
        self.cluster.metrics.cluster_failovers.inc();
        if is_damage(error) {
            self.cluster.doubt(&self.ring, *member, &self.wanted, offset, error);
        } else if !is_of_worker(error) {
            self.cluster.suspect(&self.ring, *member, error);
        }
    }
}

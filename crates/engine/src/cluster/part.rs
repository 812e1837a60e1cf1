//! One stretch of a file as a worker takes it: from the members that may have it, one after the other, and then from the
//! origin, resumed where the last broke off. Others decide whom to ask.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::time::Instant;

use super::Cluster;
use super::body::{Body, Helper, MemberAnswer, Step as Event};
use super::verdict::{is_damage, is_of_worker};
use super::wanted::Wanted;
use crate::checksum::Checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::origin::{ByteStream, ObjectVersion, Origin};
use crate::ring::Ring;
use crate::sync::Mutex;
use crate::wire::{Fill, GetRequest, REPORTED};

/// How long a primary may take to its first byte before the origin is asked instead. It may wait for a slow origin
/// itself, but not for ever for a disk of its own.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where a segment may come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Only what the member has cached.
    Cached(usize),
    /// The member may fetch it from the origin.
    Fetch(usize),
    Origin,
}

/// A stretch that comes from the same places.
pub(super) struct Part {
    pub places: Places,
    /// What is still to be tried, in order.
    pub steps: Vec<Step>,
    pub rest: ByteRange,
    pub body: Option<Body<Step>>,
}

/// How each place is asked.
#[derive(Clone)]
pub(super) struct Places {
    pub inner: Arc<dyn Origin>,
    pub cluster: Arc<Cluster>,
    pub ring: Arc<Ring>,
    pub wanted: Wanted,
    pub object: ObjectVersion,
    /// Set where another's fill is waited for, and then the origin is left to whoever reads.
    pub fill: Option<Fill>,
    pub told: Told,
}

/// What the origin told of the whole object, if it was asked.
pub(super) type Told = Arc<Mutex<Option<Checksum>>>;

impl Part {
    pub(super) fn into_stream(self) -> ByteStream {
        futures::stream::unfold(Some(self), |part| async { part?.next().await }).boxed()
    }

    /// Waits for the first bytes of whoever has them. Fails with what the origin says; gives up where that is left to the
    /// reader.
    pub(super) async fn open(&mut self) -> Result<()> {
        while self.body.is_none() && !self.rest.is_empty() {
            let step = match self.steps.is_empty() {
                true if self.places.fill.is_some() => return Ok(()),
                true => Step::Origin,
                false => self.steps.remove(0),
            };
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
                Event::Helped(_) if places.fill.is_some() => return None,
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
            body = help => return Ok(self.fill.is_none().then_some(body)),
        };
        if *step != Step::Origin {
            self.cluster.hedging.note(started.elapsed());
        }
        Ok(stream.map(|stream| Body::new(step.clone(), MemberAnswer { stream, range: rest, lag, started })))
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
        let stream = match self.fill {
            None => self.inner.read(&self.object, rest).await.ok()?,
            Some(_) => futures::stream::empty().boxed(),
        };
        let lag = cluster.hedging.lag(rest.length());
        Some(Body::new(Step::Origin, MemberAnswer { stream, range: rest, lag, started }))
    }

    async fn start(&self, step: &Step, rest: ByteRange) -> Result<Option<ByteStream>> {
        let (member, cached_only) = match step {
            Step::Origin => return self.start_at_origin(rest).await.map(Some),
            Step::Cached(member) => (*member, true),
            Step::Fetch(member) => (*member, false),
        };
        let request = GetRequest { cached_only, direct: true, fill: self.fill, ..self.wanted.request(rest) };
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

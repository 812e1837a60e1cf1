//! One segment of one file, read from workers: from one to the next where they fail, resumed where the last broke off.
//!
//! A worker that does not answer is left to the last until it does. What a worker says of the origin (not there, changed,
//! refused) is the answer; what is only its own trouble is tried elsewhere. With no worker left at all the read waits,
//! for a new view or a worker that is back, until the deadline.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::time::Instant;

use super::Cluster;
use super::candidates::{Candidate, candidates};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BlockSize, ByteRange, FileKey};
use crate::metrics::UnsignedGauge;
use crate::origin::ByteStream;
use crate::ring::{MemberId, Ring, StripeId, stripe_of};
use crate::wire::{GetRequest, REPORTED};

/// Pauses between two rounds over the members, when none can serve.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Workers that must agree that the origin fails before a reader hears of it.
const WITNESSES: usize = 2;

/// What is read, for all its segments.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub key: Arc<FileKey>,
    pub block_size: BlockSize,
}

impl Wanted {
    /// The stripe that byte `offset` lies in.
    pub(super) fn stripe(&self, offset: u64) -> StripeId {
        stripe_of(&self.key.id(), self.block_size.index_of(offset), self.block_size)
    }

    pub(super) fn request(&self, range: ByteRange) -> GetRequest {
        GetRequest {
            key: (*self.key).clone(),
            range,
            block_size: self.block_size.bytes(),
            cached_only: false,
            direct: false,
            purpose: 0,
        }
    }
}

/// A segment on its way.
pub(super) struct Reading {
    inquiry: Inquiry,
    body: Option<Body>,
}

/// Whom to ask for the rest of a segment.
struct Inquiry {
    cluster: Arc<Cluster>,
    wanted: Wanted,
    stripe: StripeId,
    /// What has not been handed on yet.
    rest: ByteRange,
    deadline: Instant,
    /// Members whose answers broke off since the last byte: asked last, and not at once again.
    broken: Vec<MemberId>,
}

/// Bytes that a member is sending.
struct Body {
    ring: Arc<Ring>,
    member: usize,
    stream: ByteStream,
}

/// What an error means for the read.
enum Verdict {
    /// It is the answer.
    Final,
    /// Another member may do better.
    TryAnother,
    /// The same, and this member is not to be asked for a while.
    Suspect,
}

/// What came of asking everybody once.
enum Round {
    Body(Body),
    Failed(Error),
    /// Nobody could be reached.
    Nobody(Option<Error>),
}

impl Reading {
    /// `segment` lies within one stripe.
    pub(super) fn new(cluster: Arc<Cluster>, wanted: Wanted, segment: ByteRange) -> Self {
        let stripe = wanted.stripe(segment.start);
        let deadline = Instant::now() + cluster.options.read_deadline;
        Reading {
            inquiry: Inquiry { cluster, wanted, stripe, rest: segment, deadline, broken: Vec::new() },
            body: None,
        }
    }

    /// Waits for the first bytes.
    pub(super) async fn open(&mut self) -> Result<()> {
        if self.body.is_none() && !self.inquiry.rest.is_empty() {
            self.body = Some(self.inquiry.find_body().await?);
        }
        Ok(())
    }

    /// The bytes of the segment.
    pub(super) fn into_stream(self) -> ByteStream {
        futures::stream::unfold(Some(self), |reading| async { reading?.next().await }).boxed()
    }

    async fn next(mut self) -> Option<(Result<Bytes>, Option<Self>)> {
        while !self.inquiry.rest.is_empty() {
            if let Err(error) = self.open().await {
                return Some((Err(error), None));
            }
            let body = self.body.as_mut()?;
            let error = match body.stream.next().await {
                Some(Ok(piece)) if piece.len() as u64 <= self.inquiry.rest.length() => {
                    self.inquiry.advance(piece.len() as u64);
                    return Some((Ok(piece), Some(self)));
                }
                Some(Ok(_)) => Error::new(ErrorKind::Corrupt, "a worker sent more than was asked for"),
                Some(Err(error)) => error,
                None => Error::new(ErrorKind::Corrupt, "a worker sent less than was asked for"),
            };
            if let Err(error) = self.body_failed(error).await {
                return Some((Err(error), None));
            }
        }
        None
    }

    async fn body_failed(&mut self, error: Error) -> Result<()> {
        let Some(body) = self.body.take() else { return Ok(()) };
        let inquiry = &mut self.inquiry;
        inquiry.cluster.metrics.cluster_failovers.inc();
        match verdict(&error) {
            Verdict::Final => return Err(error),
            Verdict::Suspect => inquiry.cluster.suspect(&body.ring, body.member, &error),
            Verdict::TryAnother => {}
        }
        inquiry.distrust(&body.ring.member(body.member).id, error).await
    }
}

impl Inquiry {
    fn advance(&mut self, bytes: u64) {
        self.rest.start += bytes;
        self.broken.clear();
        self.deadline = Instant::now() + self.cluster.options.read_deadline;
        self.cluster.metrics.cluster_read_bytes.inc_by(bytes);
    }

    /// Leaves a member whose answer broke off to the last; one that breaks off again makes the read pause, and the deadline
    /// holds for that, too.
    async fn distrust(&mut self, member: &MemberId, error: Error) -> Result<()> {
        let times = self.broken.iter().filter(|broken| *broken == member).count() as u32;
        self.broken.push(member.clone());
        if times == 0 {
            return Ok(());
        }
        if Instant::now() >= self.deadline {
            return Err(self.nobody_answered(Some(error)));
        }
        tokio::time::sleep((FIRST_PAUSE * times).min(LONGEST_PAUSE)).await;
        Ok(())
    }

    async fn find_body(&self) -> Result<Body> {
        let mut pause = FIRST_PAUSE;
        let mut waiting = None;
        loop {
            let mut changed = self.cluster.changed.subscribe();
            let ring = self.cluster.ring();
            let last = match self.ask_everybody(&ring, waiting.is_some()).await {
                Round::Body(body) => return Ok(body),
                Round::Failed(error) => return Err(error),
                Round::Nobody(last) => last,
            };
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.nobody_answered(last));
            }
            waiting.get_or_insert_with(|| self.start_waiting());
            let _ = tokio::time::timeout(pause.min(left), changed.changed()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn ask_everybody(&self, ring: &Arc<Ring>, everybody: bool) -> Round {
        let is_suspect = |member: usize| {
            let id = &ring.member(member).id;
            self.broken.contains(id) || self.cluster.suspects.contains(id)
        };
        let found = candidates(ring, self.stripe, &self.cluster.options.node, is_suspect, everybody);
        let (mut witnesses, mut refusals, mut last) = (0, 0, None);
        for (position, candidate) in found.iter().enumerate() {
            if position > 0 {
                self.cluster.metrics.cluster_failovers.inc();
            }
            let error = match self.ask(ring, *candidate, second_owner(&found, position)).await {
                Ok(body) => return Round::Body(body),
                Err(error) => error,
            };
            match verdict(&error) {
                Verdict::Final => return Round::Failed(error),
                Verdict::Suspect => self.cluster.suspect(ring, candidate.member, &error),
                Verdict::TryAnother => {}
            }
            refusals += usize::from(error.kind() == ErrorKind::PermissionDenied);
            witnesses += usize::from(is_of_worker(&error));
            last = Some(error);
            if witnesses >= WITNESSES {
                break;
            }
        }
        match last {
            // The workers answer; it is the origin that does not. They have been patient with it already.
            Some(error) if witnesses > 0 || refusals == found.len() => Round::Failed(error),
            last => Round::Nobody(last),
        }
    }

    /// The first bytes from `candidate`; from `second` if it is much faster with what it has cached.
    async fn ask(&self, ring: &Arc<Ring>, candidate: Candidate, second: Option<usize>) -> Result<Body> {
        let request = GetRequest { direct: candidate.direct, ..self.wanted.request(self.rest) };
        let started = Instant::now();
        let first = self.cluster.peers.get(&ring.member(candidate.member).address, &request);
        tokio::pin!(first);
        let answer = match second.filter(|_| self.cluster.options.hedge) {
            None => first.await,
            Some(second) => match tokio::time::timeout(self.cluster.hedging.patience(), &mut first).await {
                Ok(answer) => answer,
                Err(_) => {
                    tokio::select! {
                        biased;
                        answer = &mut first => answer,
                        Some(body) = self.hedge(ring, second) => return Ok(body),
                    }
                }
            },
        };
        let stream = answer?.ok_or_else(unasked_absence)?;
        self.cluster.hedging.note(started.elapsed());
        Ok(Body { ring: ring.clone(), member: candidate.member, stream })
    }

    /// What another owner has cached; `None` when hedges are used up, or it has nothing.
    async fn hedge(&self, ring: &Arc<Ring>, member: usize) -> Option<Body> {
        if !self.cluster.hedging.take() {
            return None;
        }
        self.cluster.metrics.cluster_hedges.inc();
        let request = GetRequest { cached_only: true, ..self.wanted.request(self.rest) };
        let stream = self.cluster.peers.get(&ring.member(member).address, &request).await.ok()??;
        Some(Body { ring: ring.clone(), member, stream })
    }

    fn start_waiting(&self) -> Waiting {
        let deadline_s = self.cluster.options.read_deadline.as_secs_f64();
        let path = String::from_utf8_lossy(&self.wanted.key.path);
        tracing::warn!(%path, deadline_s, "no worker answers: the read waits for one");
        self.cluster.metrics.cluster_waiting_reads.inc();
        Waiting(self.cluster.metrics.cluster_waiting_reads.clone())
    }

    fn nobody_answered(&self, last: Option<Error>) -> Error {
        let path = String::from_utf8_lossy(&self.wanted.key.path).into_owned();
        let seconds = self.cluster.options.read_deadline.as_secs_f64();
        let message = format!("no worker could serve {path} for {seconds} s");
        tracing::error!("{message}");
        let error = Error::new(ErrorKind::Timeout, message)
            .with_hint("see `headrace status --cluster` for the workers; the deadline can be set (read_deadline)");
        match last {
            Some(last) => error.with_context("last", last.message()),
            None => error,
        }
    }
}

/// Counts a read that waits, for as long as it lives.
struct Waiting(UnsignedGauge);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The next owner after `position`, to hedge with.
fn second_owner(found: &[Candidate], position: usize) -> Option<usize> {
    let rest = found.get(position + 1..)?;
    found[position].is_owner.then(|| rest.iter().find(|candidate| candidate.is_owner).map(|next| next.member))?
}

fn is_of_worker(error: &Error) -> bool {
    error.context().iter().any(|(name, _)| *name == REPORTED)
}

fn verdict(error: &Error) -> Verdict {
    use ErrorKind::*;
    match (is_of_worker(error), error.kind()) {
        (true, NotFound | Stale | IsDirectory | NotDirectory | Config | Unsupported) => Verdict::Final,
        (true, Cancelled) => Verdict::Suspect,
        (true, _) | (false, Corrupt) => Verdict::TryAnother,
        (false, _) => Verdict::Suspect,
    }
}

fn unasked_absence() -> Error {
    Error::new(ErrorKind::Corrupt, "a worker says that it lacks what it was asked to fetch")
}

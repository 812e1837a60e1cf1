//! The choice of the member to ask for the rest of a segment, and what to do about those who fail, or lag.
//!
//! A worker that does not answer is left to the last until it does. A worker's word on the origin (not there, changed,
//! refused) is the answer; a trouble of its own is tried elsewhere. With no worker left at all the read waits,
//! for a new view or a worker that is back, until the deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Cluster;
use super::body::{Body, Helper, MemberAnswer};
use super::candidates::{Candidate, candidates};
use super::verdict::{Verdict, is_damage, is_of_worker, verdict};
use super::wanted::Wanted;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::metrics::UnsignedGauge;
use crate::origin::ByteStream;
use crate::ring::{MemberId, Ring, StripeId};
use crate::wire::GetRequest;

/// Pauses between two rounds over the members, when none can serve.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Workers that must agree that the origin fails before a reader hears of it.
const WITNESSES: usize = 2;

/// A member of a view.
pub(super) struct Member {
    pub ring: Arc<Ring>,
    pub number: usize,
}

/// The rest of a segment, and whom to ask for it.
#[derive(Clone)]
pub(super) struct Inquiry {
    pub cluster: Arc<Cluster>,
    wanted: Wanted,
    stripe: StripeId,
    /// What has not been handed on yet.
    pub rest: ByteRange,
    deadline: Instant,
    /// Members whose answers broke off since the last byte: asked last, and not at once again.
    broken: Vec<MemberId>,
}

/// What came of asking everybody once.
enum Round {
    Body(Body<Member>),
    Failed(Error),
    /// Nobody could be reached.
    Nobody(Option<Error>),
}

impl Inquiry {
    /// `segment` lies within one stripe.
    pub(super) fn new(cluster: Arc<Cluster>, wanted: Wanted, segment: ByteRange) -> Self {
        let stripe = wanted.stripe(segment.start);
        let deadline = Instant::now() + cluster.options.read_deadline;
        Inquiry { cluster, wanted, stripe, rest: segment, deadline, broken: Vec::new() }
    }

    /// So many more bytes have been handed on.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.rest.start += bytes;
        self.broken.clear();
        self.deadline = Instant::now() + self.cluster.options.read_deadline;
        self.cluster.metrics.cluster_read_bytes.inc_by(bytes);
    }

    /// Counts bytes that did not have to leave the machine.
    pub(super) fn note_sender(&self, sender: &Member, bytes: u64) {
        if sender.ring.member(sender.number).node == self.cluster.options.node {
            self.cluster.metrics.cluster_own_node_bytes.inc_by(bytes);
        }
    }

    /// Leaves a member whose answer broke off to the last; one that breaks off again makes the read pause, and the deadline
    /// holds for that, too.
    pub(super) async fn distrust(&mut self, member: &MemberId, error: Error) -> Result<()> {
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

    /// The first bytes of the rest. Waits for a worker as long as the deadline allows.
    pub(super) async fn find_body(&self) -> Result<Body<Member>> {
        let (mut pause, mut waiting) = (FIRST_PAUSE, None);
        let has_waited = self.cluster.given_up.take(self.stripe, Instant::now());
        loop {
            let mut changed = self.cluster.changed.subscribe();
            let ring = self.cluster.ring();
            // Who breaks off again and again must not hide the one member that could serve.
            let everybody = waiting.is_some() || !self.broken.is_empty();
            let last = match self.ask_members(&ring, everybody).await {
                Round::Body(body) => return Ok(body),
                Round::Failed(error) => return Err(error),
                Round::Nobody(last) => last,
            };
            let left = self.deadline.saturating_duration_since(Instant::now());
            if has_waited {
                return Err(self.nobody_answered(last));
            }
            if left.is_zero() {
                self.cluster.given_up.note(self.stripe, Instant::now());
                return Err(self.nobody_answered(last));
            }
            waiting.get_or_insert_with(|| self.start_waiting());
            let _ = tokio::time::timeout(pause.min(left), changed.changed()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn ask_members(&self, ring: &Arc<Ring>, everybody: bool) -> Round {
        let found = self.candidates(ring, everybody, None);
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
                Verdict::TryAnother => self.consider_damage(ring, candidate.member, &error),
            }
            refusals += usize::from(error.kind() == ErrorKind::PermissionDenied);
            // A worker that is about to end knows nothing of the origin.
            witnesses += usize::from(is_of_worker(&error) && error.kind() != ErrorKind::Cancelled);
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

    /// The first bytes from `candidate`, or from somebody else if it lags.
    async fn ask(&self, ring: &Arc<Ring>, candidate: Candidate, second: Option<usize>) -> Result<Body<Member>> {
        let request = GetRequest { direct: candidate.direct, ..self.wanted.request(self.rest) };
        let started = Instant::now();
        let first = self.cluster.peers.get(&ring.member(candidate.member).address, &request);
        let stream = tokio::select! {
            biased;
            answer = first => answer?.ok_or_else(unasked_absence)?,
            body = self.help(ring, candidate.member, second) => return Ok(body),
        };
        self.cluster.hedging.note(started.elapsed());
        Ok(self.body(ring, candidate.member, stream, started))
    }

    /// What somebody else gives for `late`, who may lag: first what another owner has cached, then what anybody fetches.
    /// Waits for ever if there is nobody.
    async fn help(&self, ring: &Arc<Ring>, late: usize, second: Option<usize>) -> Body<Member> {
        let lag = self.cluster.hedging.lag(self.rest.length());
        let patience = self.cluster.hedging.patience().min(lag);
        if let Some(second) = second.filter(|_| self.cluster.options.hedge) {
            tokio::time::sleep(patience).await;
            if let Some(body) = self.hedge(ring, second).await {
                return body;
            }
        }
        tokio::time::sleep(lag.saturating_sub(patience)).await;
        match self.rescue(ring, late).await {
            Some(body) => body,
            None => std::future::pending().await,
        }
    }

    /// What another owner has cached; `None` when hedges are used up, or it has nothing.
    async fn hedge(&self, ring: &Arc<Ring>, member: usize) -> Option<Body<Member>> {
        if !self.cluster.hedging.take() {
            return None;
        }
        self.cluster.metrics.cluster_hedges.inc();
        let request = GetRequest { cached_only: true, ..self.wanted.request(self.rest) };
        let started = Instant::now();
        let stream = self.cluster.peers.get(&ring.member(member).address, &request).await.ok()??;
        Some(self.body(ring, member, stream, started))
    }

    /// `rescue`, to be waited for by somebody else.
    pub(super) fn rescuer(&self, ring: Arc<Ring>, late: usize) -> Helper<Member> {
        let inquiry = self.clone();
        Box::pin(async move { inquiry.rescue(&ring, late).await })
    }

    /// The rest from the next member after `late`, which may have to fetch it; `None` when there is nobody else, or it is
    /// not the member that is slow.
    async fn rescue(&self, ring: &Arc<Ring>, late: usize) -> Option<Body<Member>> {
        let cluster = &self.cluster;
        let found = self.candidates(ring, false, Some(late));
        let next = found.into_iter().find(|candidate| candidate.member != late)?;
        if !cluster.options.hedge || !cluster.is_slow(ring, late).await {
            return None;
        }
        cluster.metrics.cluster_hedges.inc();
        let request = GetRequest { direct: next.direct, ..self.wanted.request(self.rest) };
        let started = Instant::now();
        let stream = cluster.peers.get(&ring.member(next.member).address, &request).await.ok()??;
        Some(self.body(ring, next.member, stream, started))
    }

    fn body(&self, ring: &Arc<Ring>, member: usize, stream: ByteStream, started: Instant) -> Body<Member> {
        let lag = self.cluster.hedging.lag(self.rest.length());
        Body::new(
            Member { ring: ring.clone(), number: member },
            MemberAnswer { stream, range: self.rest, lag, started },
        )
    }

    fn candidates(&self, ring: &Ring, everybody: bool, late: Option<usize>) -> Vec<Candidate> {
        let now = Instant::now();
        let comes_last = |member: usize| {
            let (id, cluster) = (&ring.member(member).id, &self.cluster);
            let fails = self.broken.contains(id) || cluster.suspects.contains(id);
            fails || late == Some(member) || cluster.slow.contains(id, now)
        };
        candidates(ring, self.stripe, &self.cluster.options.node, comes_last, everybody)
    }

    /// A member whose bytes were damaged looks at what it has.
    pub(super) fn consider_damage(&self, ring: &Ring, member: usize, error: &Error) {
        if is_damage(error) {
            self.cluster.doubt(ring, member, &self.wanted, self.rest.start, error);
        }
    }

    fn start_waiting(&self) -> WaitingGauge {
        let deadline_s = self.cluster.options.read_deadline.as_secs_f64();
        let path = String::from_utf8_lossy(&self.wanted.key.path);
        tracing::warn!(%path, deadline_s, "no worker answers: the read waits for one");
        self.cluster.metrics.cluster_waiting_reads.inc();
        WaitingGauge(self.cluster.metrics.cluster_waiting_reads.clone())
    }

    fn nobody_answered(&self, last: Option<Error>) -> Error {
        let path = String::from_utf8_lossy(&self.wanted.key.path).into_owned();
        let seconds = self.cluster.options.read_deadline.as_secs_f64();
        let message = format!("no worker could serve {path} for {seconds} s");
        let reason = last.as_ref().map_or("no worker is known", |last| last.message());
        tracing::error!(reason, "{message}");
        let error = Error::new(ErrorKind::Timeout, message)
            .with_hint("see `headrace status --cluster` for the workers; the deadline can be set (read_deadline)");
        match last {
            Some(last) => error.with_context("last", last.message()),
            None => error,
        }
    }
}

/// Counts a read that waits, for as long as it lives.
struct WaitingGauge(UnsignedGauge);

impl Drop for WaitingGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The next owner after `position`, to hedge with.
fn second_owner(found: &[Candidate], position: usize) -> Option<usize> {
    let rest = found.get(position + 1..)?;
    found[position].is_owner.then(|| rest.iter().find(|candidate| candidate.is_owner).map(|next| next.member))?
}

fn unasked_absence() -> Error {
    Error::new(ErrorKind::Corrupt, "a worker says that it lacks what it was asked to fetch")
}

//! Bytes that a member is sending, and who helps when they come too slowly.

use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::StreamExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::ids::ByteRange;
use crate::origin::ByteStream;

/// Looks for somebody else's answer.
pub(super) type Helper<From> = BoxFuture<'static, Option<Body<From>>>;

/// What came back for a request for `range` made at `started`; it lags when it takes longer than `lag`.
pub(super) struct MemberAnswer {
    pub stream: ByteStream,
    pub range: ByteRange,
    pub lag: Duration,
    pub started: Instant,
}

/// An answer, as it is read.
pub(super) struct Body<From> {
    /// Who gives it.
    pub from: From,
    stream: ByteStream,
    pub asked_bytes: u64,
    /// Who waits longer than this looks for help.
    lag: Duration,
    /// Where in the file its next byte lies.
    position: u64,
    /// What its reader has waited for it so far. Not the time in which nobody wanted its bytes.
    pub waited: Duration,
    rescue: Rescue<From>,
}

/// Somebody else who gives what is left, in the place of a member that lags.
enum Rescue<From> {
    NotYet,
    Asked(Helper<From>),
}

/// What comes next.
pub(super) enum Step<From> {
    Piece(Bytes),
    Failed(Error),
    Ended,
    /// Somebody else is faster.
    Helped(Box<Body<From>>),
}

impl<From> Body<From> {
    pub(super) fn new(from: From, answer: MemberAnswer) -> Self {
        let MemberAnswer { stream, range, lag, started } = answer;
        let (asked_bytes, position, waited) = (range.length(), range.start, started.elapsed());
        Body { from, stream, asked_bytes, lag, position, waited, rescue: Rescue::NotYet }
    }

    /// The next bytes for a reader that has all before `wanted_from`. When they lag, `rescue` looks for help.
    pub(super) async fn next(&mut self, wanted_from: u64, rescue: impl Fn() -> Helper<From>) -> Step<From> {
        let started = Instant::now();
        let step = loop {
            match self.race(&rescue, started).await {
                Some(Step::Piece(piece)) => match self.skip_known(piece, wanted_from) {
                    Some(piece) => break Step::Piece(piece),
                    None => continue,
                },
                Some(step) => break step,
                None => continue,
            }
        };
        self.waited += started.elapsed();
        step
    }

    /// One event: of this answer, or of its rescue; `None` when only the rescue has changed.
    async fn race(&mut self, rescue: &impl Fn() -> Helper<From>, started: Instant) -> Option<Step<From>> {
        match &mut self.rescue {
            Rescue::NotYet => {
                let left = self.lag.saturating_sub(self.waited + started.elapsed());
                tokio::select! {
                    biased;
                    piece = self.stream.next() => Some(step(piece)),
                    () = tokio::time::sleep(left) => {
                        self.rescue = Rescue::Asked(rescue());
                        None
                    }
                }
            }
            Rescue::Asked(helper) => tokio::select! {
                biased;
                piece = self.stream.next() => Some(step(piece)),
                body = helper => {
                    // In vain: the next look comes as much later.
                    self.lag += self.waited + started.elapsed();
                    self.rescue = Rescue::NotYet;
                    body.map(|body| Step::Helped(Box::new(body)))
                }
            },
        }
    }

    /// What of `piece` the reader does not have yet: a rescue is asked before the member that lags has stopped.
    fn skip_known(&mut self, mut piece: Bytes, wanted_from: u64) -> Option<Bytes> {
        let known = wanted_from.saturating_sub(self.position).min(piece.len() as u64);
        self.position += piece.len() as u64;
        piece.advance(known as usize);
        (!piece.is_empty()).then_some(piece)
    }
}

fn step<From>(piece: Option<Result<Bytes>>) -> Step<From> {
    match piece {
        Some(Ok(piece)) => Step::Piece(piece),
        Some(Err(error)) => Step::Failed(error),
        None => Step::Ended,
    }
}

//! One segment of one file, read from workers: from one to the next where they fail or lag, resumed where the last broke
//! off.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;

use super::Cluster;
use super::body::{Body, Step};
use super::inquiry::{Inquiry, Member};
use super::verdict::{Verdict, verdict};
use super::wanted::Wanted;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::origin::ByteStream;

/// A segment on its way.
pub(super) struct Reading {
    inquiry: Inquiry,
    body: Option<Body<Member>>,
}

impl Reading {
    /// `segment` lies within one stripe.
    pub(super) fn new(cluster: Arc<Cluster>, wanted: Wanted, segment: ByteRange) -> Self {
        Reading { inquiry: Inquiry::new(cluster, wanted, segment), body: None }
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
            let (inquiry, ring, member) = (&self.inquiry, body.from.ring.clone(), body.from.number);
            let rescue = || inquiry.rescuer(ring.clone(), member);
            let error = match body.next(inquiry.rest.start, rescue).await {
                Step::Piece(piece) if piece.len() as u64 <= self.inquiry.rest.length() => {
                    self.inquiry.advance(piece.len() as u64);
                    self.inquiry.note_sender(&body.from, piece.len() as u64);
                    if self.inquiry.rest.is_empty() {
                        self.inquiry.cluster.hedging.note_segment(body.waited, body.asked_bytes);
                    }
                    return Some((Ok(piece), Some(self)));
                }
                Step::Helped(other) => {
                    *body = *other;
                    continue;
                }
                Step::Piece(_) => Error::new(ErrorKind::Corrupt, "a worker sent more than was asked for"),
                Step::Failed(error) => error,
                Step::Ended => Error::new(ErrorKind::Corrupt, "a worker sent less than was asked for"),
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
            Verdict::Suspect => inquiry.cluster.suspect(&body.from.ring, body.from.number, &error),
            Verdict::TryAnother => inquiry.consider_damage(&body.from.ring, body.from.number, &error),
        }
        inquiry.distrust(&body.from.ring.member(body.from.number).id, error).await
    }
}

//! Blocks that another process fetches for both: waited for without memory.
//!
//! A task that holds memory while it waits for another one's fill may wait for somebody who waits for memory, and so for
//! itself. So a block gets its memory when its first byte is here: who sends it has memory for it by then. Knows nothing
//! of who that is.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;

use super::claim::Span;
use super::context::Context;
use super::control::Way;
use super::delivery::Delivery;
use super::flight::{Flight, Stretch};
use super::request::Requests;
use super::source::Source;
use crate::error::Result;
use crate::ids::ByteRange;
use crate::store::Proof;

/// Asks the process that fetches for both.
pub(super) struct SharedFetches {
    pub(super) context: Arc<Context>,
    pub(super) delivery: Arc<Delivery>,
    pub(super) requests: Arc<Requests>,
}

impl SharedFetches {
    /// How the first of `flights` is to be fetched, and how many from there on by one request.
    pub(super) fn way(&self, source: &Source, flights: &[Arc<Flight>]) -> (Way, usize) {
        match flights.first().and_then(|first| self.shared_until(source, first)) {
            None => {
                (Way::Alone, flights.iter().take_while(|flight| self.shared_until(source, flight).is_none()).count())
            }
            Some(until) => {
                (Way::Shared, flights.iter().take_while(|flight| self.context.block_start(flight) < until).count())
            }
        }
    }

    /// Where the stretch ends that another process fetches for both and that `flight` lies in; `None` when it lies in none.
    pub(super) fn shared_until(&self, source: &Source, flight: &Flight) -> Option<u64> {
        let range = ByteRange { start: self.context.block_start(flight), end: source.size() };
        source.origin().shared_until(source.object(), range)
    }

    /// What the other process sends, and then alone what it does not.
    pub(super) async fn stream(
        &self,
        span: &Span,
        flights: &[Arc<Flight>],
        stretch: Stretch,
        range: ByteRange,
    ) -> Result<()> {
        let source = &span.source;
        let mut stream = source.origin().read_shared(source.object(), range, stretch == Stretch::Head);
        let mut position = range.start;
        while let Some(piece) = stream.next().await {
            // Its failures are its own; what is too long is as good as none.
            let Ok(piece) = piece else { break };
            if piece.len() as u64 > range.end - position {
                break;
            }
            position = self.arrived_shared(span, flights, stretch, position, piece).await;
        }
        drop(stream);
        self.stream_rest(span, flights, stretch, ByteRange { start: position, ..range }).await
    }

    /// Hands `piece` to its blocks, each of which has memory by then; where the next one begins.
    async fn arrived_shared(
        &self,
        span: &Span,
        flights: &[Arc<Flight>],
        stretch: Stretch,
        mut position: u64,
        mut piece: Bytes,
    ) -> u64 {
        while let (false, Some(flight)) = (piece.is_empty(), self.flight_at(flights, position)) {
            if !flight.has_memory() {
                flight.set_memory(self.context.memory.acquire(u64::from(flight.length)).await);
            }
            if self.context.comes_with_checksum(&span.source) {
                // Who sent it has compared it, or could not.
                flight.note_proof(Proof::NoChecksum);
            }
            let end = self.context.block_start(flight) + u64::from(flight.length);
            let part = piece.split_to(piece.len().min((end - position) as usize));
            let start = position;
            position += part.len() as u64;
            self.delivery.arrived(span, flights, stretch, start, part);
        }
        position
    }

    /// `range` from the origin, in as few requests as memory allows.
    async fn stream_rest(
        &self,
        span: &Span,
        flights: &[Arc<Flight>],
        stretch: Stretch,
        mut range: ByteRange,
    ) -> Result<()> {
        while let (false, Some(first)) = (range.is_empty(), self.flight_at(flights, range.start)) {
            let rest = &flights[(first.id.index - flights[0].id.index) as usize..];
            let ready = self.context.memory.secure(rest).await;
            let last = &rest[ready - 1];
            let end = range.end.min(self.context.block_start(last) + u64::from(last.length));
            self.requests.stream(span, flights, stretch, ByteRange { end, ..range }).await?;
            range.start = end;
        }
        Ok(())
    }

    fn flight_at<'a>(&self, flights: &'a [Arc<Flight>], position: u64) -> Option<&'a Arc<Flight>> {
        let first = flights.first()?;
        flights.get((self.context.block_size.index_of(position) - first.id.index) as usize)
    }
}

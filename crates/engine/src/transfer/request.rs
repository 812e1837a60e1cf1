//! One request to an origin, whose answer goes to the blocks that were asked for.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::StreamExt;

use super::claim::Span;
use super::context::Context;
use super::delivery::Delivery;
use super::faults::{wrong_content, wrong_length};
use super::flight::{Flight, Stretch};
use super::proof::{Comparisons, FETCHES};
use super::source::Source;
use super::sums::Sums;
use crate::checksum::{Checksum, Kind};
use crate::error::Result;
use crate::ids::ByteRange;
use crate::origin::ByteStream;
use crate::store::Proof;

/// Asks the origin itself, or who has its bytes already.
pub(super) struct Requests {
    pub(super) context: Arc<Context>,
    pub(super) comparisons: Arc<Comparisons>,
    pub(super) delivery: Arc<Delivery>,
    pub(super) sums: Sums,
}

impl Requests {
    /// One request: hands every piece to its block and checks that exactly the range came.
    pub(super) async fn stream(
        &self,
        span: &Span,
        flights: &[Arc<Flight>],
        stretch: Stretch,
        range: ByteRange,
    ) -> Result<()> {
        let source = &span.source;
        if range.length() == source.size() && self.context.comes_with_checksum(source) {
            return self.stream_whole(span, &flights[0]).await;
        }
        let asked = Instant::now();
        let stream = source.origin().read(source.object(), range).await?;
        self.context.answer_time.note(asked.elapsed());
        self.delivery.pour(span, flights, stretch, range, stream).await
    }

    /// Fetches the only block of a file in one answer. Where that tells the file's checksum, readers are answered once
    /// it was compared, and otherwise as bytes arrive.
    async fn stream_whole(&self, span: &Span, flight: &Arc<Flight>) -> Result<()> {
        let flights = std::slice::from_ref(flight);
        for _ in 0..FETCHES {
            let (stream, told) = span.source.origin().read_whole(span.source.object()).await?;
            if told.is_none() {
                flight.note_proof(Proof::NoChecksum);
            }
            // One of several parts is compared when the block is in the store.
            let Some(told) = told.filter(|told| told.parts().is_none_or(|count| count == 1)) else {
                return self.delivery.pour(span, flights, Stretch::Tail, whole(&span.source), stream).await;
            };
            let (pieces, sum) = self.receive(&span.source, told.kind(), stream).await?;
            let computed = if told.parts().is_some() { Checksum::of_parts(told.kind(), [sum]) } else { sum };
            if computed == told || !told.can_accuse() {
                flight.note_proof(if computed == told { Proof::Proven } else { Proof::NoChecksum });
                let mut position = 0;
                for piece in pieces {
                    let length = piece.len() as u64;
                    self.delivery.arrived(span, flights, Stretch::Tail, position, piece);
                    position += length;
                }
                return Ok(());
            }
            self.comparisons.tell_mismatch(&span.source, told.kind());
        }
        Err(wrong_content(&span.source))
    }

    /// All of an answer, and its checksum.
    async fn receive(&self, source: &Source, kind: Kind, mut stream: ByteStream) -> Result<(Vec<Bytes>, Checksum)> {
        let (mut pieces, mut sum, mut arrived) = (Vec::new(), self.sums.begin(kind), 0);
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            arrived += piece.len() as u64;
            if arrived > source.size() {
                return Err(wrong_length(source, whole(source), "more"));
            }
            sum.update(&piece);
            pieces.push(piece);
        }
        if arrived < source.size() {
            Err(wrong_length(source, whole(source), "fewer"))
        } else {
            Ok((pieces, sum.finish().await?))
        }
    }
}

fn whole(source: &Source) -> ByteRange {
    ByteRange::new(0, source.size())
}

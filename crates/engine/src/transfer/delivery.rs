//! Bytes that arrive, handed to their blocks.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;

use super::claim::Span;
use super::context::Context;
use super::control::Purpose;
use super::faults::wrong_length;
use super::flight::{Flight, Stretch};
use super::settle::Settler;
use crate::error::Result;
use crate::ids::ByteRange;
use crate::origin::ByteStream;

/// Hands bytes to blocks, and blocks that are complete to the one who settles them.
pub(super) struct Delivery {
    pub(super) context: Arc<Context>,
    pub(super) settler: Arc<Settler>,
}

impl Delivery {
    /// Hands every piece of an answer to its block as it comes.
    pub(super) async fn pour(
        &self,
        span: &Span,
        flights: &[Arc<Flight>],
        stretch: Stretch,
        range: ByteRange,
        mut stream: ByteStream,
    ) -> Result<()> {
        let source = &span.source;
        let mut position = range.start;
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            if piece.len() as u64 > range.end - position {
                return Err(wrong_length(source, range, "more"));
            }
            let length = piece.len() as u64;
            self.arrived(span, flights, stretch, position, piece);
            position += length;
        }
        if position < range.end { Err(wrong_length(source, range, "fewer")) } else { Ok(()) }
    }

    /// Takes a piece that begins at byte `position` of the file.
    pub(super) fn arrived(&self, span: &Span, flights: &[Arc<Flight>], stretch: Stretch, position: u64, piece: Bytes) {
        self.count_ahead(span.control.purpose, piece.len());
        self.deliver(flights, stretch, position, piece);
    }

    /// Cuts `piece` at block borders.
    fn deliver(&self, flights: &[Arc<Flight>], stretch: Stretch, mut position: u64, mut piece: Bytes) {
        while let (false, Some(first)) = (piece.is_empty(), flights.first()) {
            let index = self.context.block_size.index_of(position) - first.id.index;
            let Some(flight) = flights.get(index as usize) else { return };
            let left = self.context.block_start(flight) + u64::from(flight.length) - position;
            let part = piece.split_to(piece.len().min(left as usize));
            position += part.len() as u64;
            let reached_end = part.len() as u64 == left;
            if flight.append(stretch, part) {
                self.settler.finish(flight);
            } else if reached_end && stretch == Stretch::Tail {
                flight.head_wanted.notify_one();
            }
        }
    }

    /// Counts bytes that no reader waited for.
    pub(super) fn count_ahead(&self, purpose: Purpose, bytes: usize) {
        match purpose {
            Purpose::Demand => {}
            Purpose::ReadAhead => drop(self.context.metrics.readahead_bytes.inc_by(bytes as u64)),
            Purpose::Prefetch | Purpose::Warm => drop(self.context.metrics.prefetch_bytes.inc_by(bytes as u64)),
        }
    }
}

//! The places where the bytes of a read are now: in the store, in memory, or on their way. Fetches nothing.

use std::sync::Arc;

use super::context::Context;
use super::control::{FlightAnswer, FlightWaiter};
use super::disk::on_disk;
use super::flight::{Asked, Flight};
use super::reply::{Piece, Reply, StoredPart};
use super::source::Source;
use crate::error::Result;
use crate::ids::ByteRange;
use crate::store::{AtOnce, BlockHandle};

/// How often a read looks again for a block that was there and is gone, before it gives up. Each time means that the
/// block was fetched and dropped within the same moment: memory far too small for the readers at work.
pub(super) const ATTEMPTS: usize = 32;

/// Blocks of one read that were found on their disk, and stay there.
pub(super) type Found = Vec<(u32, BlockHandle)>;

/// The bytes of one block that a read wants, counted from the block's start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Within {
    pub(crate) index: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Where a block's bytes are.
pub(super) enum Located {
    Here(Vec<Piece>),
    Coming(FlightWaiter, Arc<Flight>),
    Missing,
}

/// Finds bytes.
pub(super) struct Lookup {
    pub(super) context: Arc<Context>,
}

impl Lookup {
    /// Opens and verifies what of `range` is in the store and needs that, and keeps it in place meanwhile. What lies on
    /// a disk that hangs is left out.
    pub(super) async fn find_on_disk(&self, source: &Source, range: ByteRange) -> Found {
        let mut found = Found::new();
        let Some(blocks) = &self.context.blocks else { return found };
        for index in self.context.block_size.indices(range) {
            let AtOnce::After(watch) = blocks.get_at_once(&source.id(), index, source.size()) else { continue };
            let (blocks, id, size) = (blocks.clone(), source.id(), source.size());
            let got = on_disk(&self.context.runtime, &watch, move || blocks.get(&id, index, size)).await;
            found.extend(got.flatten().map(|handle| (index, handle)));
        }
        found
    }

    /// The bytes of `range` if all of them are in the store or in memory, and no disk has to be waited for to know it.
    pub(super) fn collect(&self, source: &Source, range: ByteRange) -> Option<Reply> {
        let mut reply = Reply::default();
        for index in self.context.block_size.indices(range) {
            let within = self.within(index, range);
            if !self.collect_stored(source, within, &[], &mut reply.pieces)
                && !self.collect_from_memory(source, within, &mut reply.pieces)
            {
                return None;
            }
        }
        Some(reply)
    }

    /// Where one block is, with a place in the queue of a flight that is still without its bytes.
    pub(super) fn locate(&self, source: &Source, within: Within, found: &Found) -> Result<Located> {
        for _ in 0..ATTEMPTS {
            let mut pieces = Vec::new();
            if self.collect_stored(source, within, found, &mut pieces) {
                return Ok(Located::Here(pieces));
            }
            let Some(flight) = self.context.flights.find(&source.block(within.index)) else {
                return Ok(Located::Missing);
            };
            match flight.ask(within.from, within.to) {
                Asked::Now(FlightAnswer::Ready(bytes)) => {
                    self.note_end(&flight, within);
                    return Ok(Located::Here(bytes.into_iter().map(Piece::Memory).collect()));
                }
                Asked::Now(FlightAnswer::Failed(error)) => return Err(error),
                Asked::Now(FlightAnswer::Gone) => {}
                Asked::Later(waiting) => return Ok(Located::Coming(waiting, flight)),
            }
        }
        Ok(Located::Missing)
    }

    /// From those `found` already, or from the store as far as no disk has to be waited for.
    pub(super) fn collect_stored(
        &self,
        source: &Source,
        within: Within,
        found: &[(u32, BlockHandle)],
        pieces: &mut Vec<Piece>,
    ) -> bool {
        let Some(block) = self.stored_at_once(source, within.index, found) else { return false };
        // A block that is not as long as the file says is not this block; reading it would give wrong bytes.
        if block.length < within.to {
            return false;
        }
        let offset = block.offset + u64::from(within.from);
        pieces.push(Piece::Stored(StoredPart { block, offset, length: (within.to - within.from) as usize }));
        true
    }

    fn stored_at_once(&self, source: &Source, index: u32, found: &[(u32, BlockHandle)]) -> Option<BlockHandle> {
        if let Some((_, block)) = found.iter().find(|(known, _)| *known == index) {
            return Some(block.clone());
        }
        match self.context.blocks.as_ref()?.get_at_once(&source.id(), index, source.size()) {
            AtOnce::Here(block) => Some(block),
            AtOnce::Absent | AtOnce::After(_) => None,
        }
    }

    fn collect_from_memory(&self, source: &Source, within: Within, pieces: &mut Vec<Piece>) -> bool {
        let Some(flight) = self.context.flights.find(&source.block(within.index)) else { return false };
        let Some(bytes) = flight.peek(within.from, within.to) else { return false };
        self.note_end(&flight, within);
        pieces.extend(bytes.into_iter().map(Piece::Memory));
        true
    }

    /// A reader has had these bytes of the block.
    pub(super) fn note_end(&self, flight: &Arc<Flight>, within: Within) {
        if within.to == flight.length {
            self.context.memory.consumed(flight);
        }
    }

    pub(super) fn within(&self, index: u32, range: ByteRange) -> Within {
        let block = u64::from(self.context.block_size.bytes());
        let start = u64::from(index) * block;
        let from = range.start.saturating_sub(start) as u32;
        Within { index, from, to: range.end.saturating_sub(start).min(block) as u32 }
    }
}

//! Bringing given blocks of one file into the store because somebody else asked for it: a load, or a member that leaves.

use std::ops::Range;
use std::sync::Arc;

use super::Transfer;
use super::background::Found;
use super::claim::Run;
use super::control::{Outcome, Purpose};
use super::disk::on_any_disk;
use super::reader::Plan;
use super::source::Source;
use crate::error::{Error, Result};
use crate::ids::ByteRange;
use crate::store::is_passing;

/// How often a block is looked for that goes from one place to the next meanwhile.
const LOOKS: usize = 4;

/// What became of the blocks that were to be held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HoldOutcome {
    /// Bytes that are in the store now, each block read back and verified.
    pub held_bytes: u64,
    /// Those of them that had to be fetched.
    pub fetched_bytes: u64,
    /// Bytes that found no room, and why.
    pub declined_bytes: u64,
    pub declined_reason: &'static str,
    /// Bytes that could not be fetched, and the last error.
    pub failed_bytes: u64,
    pub error: Option<String>,
}

impl Transfer {
    /// Starts fetching what is missing of `range` for a reader that is about to ask for it, if memory and requests allow.
    pub fn fetch_soon(self: &Arc<Self>, source: &Source, range: ByteRange) {
        let block = u64::from(self.block_size.bytes());
        let from = range.start.next_multiple_of(block);
        if from < range.end {
            self.fetch_ahead(source, &Plan::stretch(from, range.end));
        }
    }

    /// Fetches what is missing of these blocks as for a reader, and waits until the first is in the store; how many are
    /// there then, from the first on. 0 where the store does not keep it.
    pub async fn bring(self: &Arc<Self>, source: &Source, blocks: Range<u32>) -> Result<u32> {
        let (first, last) = (blocks.start, blocks.end.min(self.blocks(source)));
        let block = u64::from(self.block_size.bytes());
        let wanted = ByteRange { start: u64::from(first) * block, end: u64::from(last) * block };
        self.fetch_soon(source, wanted.clamp_to(source.size()));
        for _ in 0..LOOKS {
            if let Some(flight) = self.flights.find(&source.block(first)) {
                match flight.watch().await.unwrap_or_else(|_| Outcome::Failed(super::fetch::closing_error())) {
                    Outcome::Stored => {}
                    Outcome::Declined(_) => return Ok(0),
                    Outcome::Failed(error) => return Err(error),
                }
            }
            let is_here = |index: &u32| !self.flights.contains(&source.block(*index)) && self.expects(source, *index);
            let here = (first..last).take_while(is_here).count() as u32;
            if here > 0 {
                return Ok(here);
            }
            // Neither memory nor a request was free for it: as a reader it waits for them.
            if let Some(span) = self.claim(source, Run { first, most: 1, start: 0 }, Purpose::Demand, false) {
                self.start(span);
            }
        }
        Ok(0)
    }

    /// Brings blocks of a file into the store and looks whether they are there. Waits for memory and requests behind
    /// all readers.
    pub async fn hold(self: &Arc<Self>, source: &Source, blocks: Range<u32>) -> HoldOutcome {
        let mut held = self.fetch_to_hold(source, blocks.clone()).await;
        if is_passing(held.declined_reason) && self.room_now().await.is_some() {
            self.offer_again().await;
            let again = self.fetch_to_hold(source, blocks.clone()).await;
            held = HoldOutcome { fetched_bytes: held.fetched_bytes + again.fetched_bytes, ..again };
        }
        held.held_bytes = self.verified_bytes(source, blocks).await;
        held
    }

    async fn fetch_to_hold(self: &Arc<Self>, source: &Source, blocks: Range<u32>) -> HoldOutcome {
        let mut coming = Vec::new();
        self.fetch_missing(source, blocks, Purpose::Warm, |found| {
            if let Found::Coming { bytes, outcome, .. } = found {
                coming.push((bytes, outcome));
            }
            true
        })
        .await;
        let mut held = HoldOutcome::default();
        for (bytes, outcome) in coming {
            match outcome.await.unwrap_or_else(|_| Outcome::Failed(super::fetch::closing_error())) {
                Outcome::Stored => held.fetched_bytes += bytes,
                Outcome::Declined(reason) => {
                    held.declined_bytes += bytes;
                    held.declined_reason = reason;
                }
                Outcome::Failed(error) => held.fail(bytes, &error),
            }
        }
        held
    }

    /// Bytes of those blocks that are in the store, each verified; none when a disk hangs over that.
    async fn verified_bytes(&self, source: &Source, wanted: Range<u32>) -> u64 {
        let Some(blocks) = self.blocks.clone() else { return 0 };
        let (id, size, block_size) = (source.id(), source.size(), self.block_size);
        let indices = wanted.start..wanted.end.min(self.blocks(source));
        let looked_at = blocks.clone();
        let look = move || {
            let present = indices.filter(|index| looked_at.get(&id, *index, size).is_some());
            present.map(|index| block_size.range(index, size).length()).sum()
        };
        let seen = on_any_disk(&self.runtime, &*blocks, look).await;
        seen.and_then(|bytes| bytes.ok()).unwrap_or(0)
    }
}

impl HoldOutcome {
    fn fail(&mut self, bytes: u64, error: &Error) {
        self.failed_bytes += bytes;
        self.error = Some(error.to_string());
    }
}

//! Bringing given blocks of one file into the store because somebody else asked for it: a load, or a member that leaves.

use std::ops::Range;
use std::sync::Arc;

use super::ahead::ReadAhead;
use super::background::{Background, Found};
use super::claim::Run;
use super::context::Context;
use super::control::{Outcome, Purpose};
use super::disk::on_any_disk;
use super::faults::closing_error;
use super::fetch::Fetcher;
use super::settle::Settler;
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

/// Brings blocks in for other processes.
pub(super) struct Holder {
    pub(super) context: Arc<Context>,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) ahead: Arc<ReadAhead>,
    pub(super) background: Arc<Background>,
    pub(super) settler: Arc<Settler>,
}

impl Holder {
    /// Fetches what is missing of these blocks as for a reader, and waits until the first is in the store; how many are
    /// there then, from the first on. 0 where the store does not keep it.
    pub(super) async fn bring(&self, source: &Source, blocks: Range<u32>) -> Result<u32> {
        let (first, last) = (blocks.start, blocks.end.min(self.context.block_count(source)));
        let block = u64::from(self.context.block_size.bytes());
        let wanted = ByteRange { start: u64::from(first) * block, end: u64::from(last) * block };
        self.ahead.fetch_soon(source, wanted.clamp_to(source.size()));
        for _ in 0..LOOKS {
            if let Some(flight) = self.context.flights.find(&source.block(first)) {
                match flight.watch().await.unwrap_or_else(|_| Outcome::Failed(closing_error())) {
                    Outcome::Stored => {}
                    Outcome::Declined(_) => return Ok(0),
                    Outcome::Failed(error) => return Err(error),
                }
            }
            let is_here = |index: &u32| {
                !self.context.flights.contains(&source.block(*index)) && self.context.expects(source, *index)
            };
            let here = (first..last).take_while(is_here).count() as u32;
            if here > 0 {
                return Ok(here);
            }
            // Neither memory nor a request was free for it: as a reader it waits for them.
            let missing = Run { first, most: 1, start: 0 };
            if let Some(span) = missing.claim(&self.context, source, Purpose::Demand, false) {
                self.fetcher.start(span);
            }
        }
        Ok(0)
    }

    /// Brings blocks of a file into the store and looks whether they are there. Waits for memory and requests behind
    /// all readers.
    pub(super) async fn hold(&self, source: &Source, blocks: Range<u32>) -> HoldOutcome {
        let mut held = self.fetch_to_hold(source, blocks.clone()).await;
        if is_passing(held.declined_reason) && self.settler.room_now().await.is_some() {
            self.settler.offer_again().await;
            let again = self.fetch_to_hold(source, blocks.clone()).await;
            held = HoldOutcome { fetched_bytes: held.fetched_bytes + again.fetched_bytes, ..again };
        }
        held.held_bytes = self.verified_bytes(source, blocks).await;
        held
    }

    async fn fetch_to_hold(&self, source: &Source, blocks: Range<u32>) -> HoldOutcome {
        let mut coming = Vec::new();
        self.background
            .fetch_missing(source, blocks, Purpose::Warm, |found| {
                if let Found::Coming { bytes, outcome, .. } = found {
                    coming.push((bytes, outcome));
                }
                true
            })
            .await;
        let mut held = HoldOutcome::default();
        for (bytes, outcome) in coming {
            match outcome.await.unwrap_or_else(|_| Outcome::Failed(closing_error())) {
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
        let Some(blocks) = self.context.blocks.clone() else { return 0 };
        let (id, size, block_size) = (source.id(), source.size(), self.context.block_size);
        let indices = wanted.start..wanted.end.min(self.context.block_count(source));
        let looked_at = blocks.clone();
        let look = move || {
            let present = indices.filter(|index| looked_at.get(&id, *index, size).is_some());
            present.map(|index| block_size.range(index, size).length()).sum()
        };
        let seen = on_any_disk(&self.context.runtime, &*blocks, look).await;
        seen.and_then(|bytes| bytes.ok()).unwrap_or(0)
    }
}

impl HoldOutcome {
    fn fail(&mut self, bytes: u64, error: &Error) {
        self.failed_bytes += bytes;
        self.error = Some(error.to_string());
    }
}

//! Blocks that the store did not keep and that stay in memory for a while, so that the many small reads of one block
//! fetch it once. What readers have had to the end goes first; what nobody has read yet goes last.

use std::collections::VecDeque;
use std::sync::Arc;

use super::flight::Flight;

/// The declined blocks in memory, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct KeptBlocks {
    /// Not yet read to the end. Entries that were moved to `consumed` since stay behind until `compact`.
    fresh: VecDeque<Arc<Flight>>,
    fresh_bytes: u64,
    moved: usize,
    consumed: VecDeque<Arc<Flight>>,
    consumed_bytes: u64,
}

impl KeptBlocks {
    pub(crate) fn bytes(&self) -> u64 {
        self.fresh_bytes + self.consumed_bytes
    }

    pub(crate) fn consumed_bytes(&self) -> u64 {
        self.consumed_bytes
    }

    pub(crate) fn add(&mut self, flight: Arc<Flight>, consumed: bool) {
        let length = u64::from(flight.length);
        if consumed {
            self.consumed_bytes += length;
            self.consumed.push_back(flight);
        } else {
            self.fresh_bytes += length;
            self.fresh.push_back(flight);
        }
    }

    /// A reader has had the last byte of `flight`, which was not consumed before.
    pub(crate) fn consume(&mut self, flight: &Arc<Flight>) {
        let length = u64::from(flight.length);
        self.fresh_bytes = self.fresh_bytes.saturating_sub(length);
        self.consumed_bytes += length;
        self.consumed.push_back(flight.clone());
        self.moved += 1;
        if self.moved > 64 && self.moved * 2 > self.fresh.len() {
            self.fresh.retain(|entry| !entry.is_consumed());
            self.moved = 0;
        }
    }

    /// The longest kept block that was read to the end.
    pub(crate) fn pop_consumed(&mut self) -> Option<Arc<Flight>> {
        let flight = self.consumed.pop_front()?;
        self.consumed_bytes -= u64::from(flight.length);
        Some(flight)
    }

    /// The longest kept block that nobody has read to the end.
    pub(crate) fn pop_fresh(&mut self) -> Option<Arc<Flight>> {
        while let Some(flight) = self.fresh.pop_front() {
            if flight.is_consumed() {
                self.moved = self.moved.saturating_sub(1);
                continue;
            }
            self.fresh_bytes = self.fresh_bytes.saturating_sub(u64::from(flight.length));
            return Some(flight);
        }
        None
    }

    /// The block to drop first.
    pub(crate) fn pop(&mut self) -> Option<Arc<Flight>> {
        let flight = self.pop_consumed().or_else(|| self.pop_fresh());
        if flight.is_none() {
            (self.fresh_bytes, self.consumed_bytes) = (0, 0);
        }
        flight
    }

    /// The longest kept block that nobody has read to the end, in place.
    pub(crate) fn oldest_fresh(&self) -> Option<&Arc<Flight>> {
        self.fresh.iter().find(|flight| !flight.is_consumed())
    }
}

//! Blocks that the store did not keep and that stay in memory for a while, so that the many small reads of one block
//! fetch it once. Blocks that readers have had to the end go first; those that nobody has read yet go last.

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

    /// Takes the longest kept block that `leaves` agrees to, which may change it.
    pub(crate) fn take(&mut self, leaves: impl Fn(&Flight) -> bool) -> Option<Arc<Flight>> {
        let fresh = |flight: &&Arc<Flight>| !flight.is_consumed();
        let found = self.consumed.iter().find(|flight| leaves(flight)).cloned();
        let flight = match found {
            Some(flight) => {
                self.consumed.retain(|other| !Arc::ptr_eq(other, &flight));
                self.consumed_bytes -= u64::from(flight.length);
                flight
            }
            None => {
                let flight = self.fresh.iter().filter(fresh).find(|flight| leaves(flight)).cloned()?;
                self.fresh_bytes = self.fresh_bytes.saturating_sub(u64::from(flight.length));
                flight
            }
        };
        // Where it was moved from, too: it is neither kept nor gone now, and nobody is to find it here.
        let before = self.fresh.len();
        self.fresh.retain(|other| !Arc::ptr_eq(other, &flight));
        let was_moved = flight.was_consumed() && self.fresh.len() < before;
        self.moved = self.moved.saturating_sub(usize::from(was_moved));
        Some(flight)
    }

    /// True when some block is kept of which `is_so`.
    pub(crate) fn any(&self, is_so: impl Fn(&Flight) -> bool) -> bool {
        self.fresh.iter().chain(&self.consumed).any(|flight| is_so(flight))
    }

    /// The longest kept block that nobody has read to the end, in place.
    pub(crate) fn oldest_fresh(&self) -> Option<&Arc<Flight>> {
        self.fresh.iter().find(|flight| !flight.is_consumed())
    }
}

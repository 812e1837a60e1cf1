//! Memory of blocks in flight: every block's bytes count against one budget, readers go before read-ahead and prefetch,
//! and what is merely kept gives way first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::block_memory::BlockMemory;
use super::flight::Flight;
use super::flights::Flights;
use super::kept::KeptBlocks;
use crate::budget::{Budget, Permit};
use crate::sync::Mutex;

/// A block that was fetched ahead, declined by the store and not read for this long may be dropped for another's
/// read-ahead. Shorter would drop what a slow training step still wants.
const STALE_AHEAD: Duration = Duration::from_secs(30);

/// How long background work sleeps before it looks for free memory again when nobody told it.
const PATIENCE: Duration = Duration::from_millis(20);

/// The memory of block buffers.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: Budget,
    flights: Arc<Flights>,
    kept: Mutex<KeptBlocks>,
    waiting_readers: AtomicUsize,
    freed: Arc<Notify>,
}

impl Memory {
    pub(crate) fn new(budget: Budget, flights: Arc<Flights>) -> Self {
        Memory {
            budget,
            flights,
            kept: Mutex::default(),
            waiting_readers: AtomicUsize::new(0),
            freed: Arc::new(Notify::new()),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.budget.limit()
    }

    /// Memory for a reader's block: waits until it is there, dropping what is merely kept.
    pub(crate) async fn acquire(&self, bytes: u64) -> BlockMemory {
        let bytes = bytes.min(self.limit());
        if let Some(memory) = self.try_acquire(bytes) {
            return memory;
        }
        let _waiting = MemoryWaiter::enter(&self.waiting_readers);
        self.make_room(bytes, true);
        self.wrap(self.budget.acquire(bytes).await)
    }

    /// The same without waiting and without dropping anything.
    pub(crate) fn try_acquire(&self, bytes: u64) -> Option<BlockMemory> {
        Some(self.wrap(self.budget.try_acquire(bytes.min(self.limit()))?))
    }

    /// Waits for the memory of the first block, takes what is free for those after it; how many blocks have theirs.
    pub(super) async fn secure(&self, flights: &[Arc<Flight>]) -> usize {
        for (position, flight) in flights.iter().enumerate() {
            let bytes = u64::from(flight.length);
            if flight.has_memory() {
                continue;
            }
            match position {
                0 => flight.set_memory(self.acquire(bytes).await),
                _ => match self.try_acquire(bytes) {
                    Some(memory) => flight.set_memory(memory),
                    None => return position,
                },
            }
        }
        flights.len()
    }

    /// Memory for a block that nobody waits for yet, if what readers may need in a moment stays free.
    pub(crate) fn try_acquire_ahead(&self, bytes: u64) -> Option<BlockMemory> {
        if self.waiting_readers.load(Ordering::Relaxed) > 0 {
            return None;
        }
        // A block as large as the budget must still be possible when nothing else is going on.
        let needed = (bytes + self.reserve()).min(self.limit());
        // Asked once: others give memory back meanwhile.
        let missing = needed.saturating_sub(self.budget.free());
        if missing > 0 {
            self.make_room(missing, false);
        }
        if self.budget.free() < needed {
            return None;
        }
        self.try_acquire(bytes)
    }

    /// Waits for `try_acquire_ahead` to succeed: only what readers leave free.
    pub(crate) async fn acquire_ahead(&self, bytes: u64) -> BlockMemory {
        loop {
            let freed = self.freed.notified();
            if let Some(memory) = self.try_acquire_ahead(bytes) {
                return memory;
            }
            let _ = tokio::time::timeout(PATIENCE, freed).await;
        }
    }

    /// Keeps a block that the store declined for the readers that are about to come.
    pub(crate) fn keep(&self, flight: Arc<Flight>, reason: &'static str) {
        let mut kept = self.kept.lock();
        // Under the lock, so that a reader that consumes it now finds it in the ring.
        let consumed = flight.end_declined(reason);
        kept.add(flight, consumed);
        while kept.consumed_bytes() > self.limit() / 4 {
            self.discard(kept.pop_consumed());
        }
        while kept.bytes() > self.limit() / 2 {
            self.discard(kept.pop());
        }
        if self.waiting_readers.load(Ordering::Relaxed) > 0 {
            self.discard(kept.pop());
        }
    }

    /// A reader has just had the last byte of a kept block for the first time.
    pub(crate) fn consumed(&self, flight: &Arc<Flight>) {
        let mut kept = self.kept.lock();
        if flight.mark_consumed() {
            kept.consume(flight);
        }
    }

    /// Takes the longest kept block that `may` leave, by why it was declined and its length: it goes to the store again.
    pub(crate) fn take_kept(&self, may: impl Fn(&'static str, u64) -> bool) -> Option<Arc<Flight>> {
        self.kept.lock().take(|flight| flight.leave_memory(&may))
    }

    /// True when some block is kept that was declined for a reason of which `is_so`.
    pub(crate) fn keeps_any(&self, is_so: impl Fn(&'static str) -> bool) -> bool {
        self.kept.lock().any(|flight| flight.declined_reason().is_some_and(&is_so))
    }

    /// Drops everything that is merely kept.
    pub(crate) fn drop_kept(&self) {
        let mut kept = self.kept.lock();
        while kept.bytes() > 0 {
            self.discard(kept.pop());
        }
    }

    /// What read-ahead and prefetch leave free for readers.
    fn reserve(&self) -> u64 {
        self.limit() / 4
    }

    /// Drops kept blocks of about `bytes`: those read to the end, then those long unread; for a reader any.
    fn make_room(&self, bytes: u64, for_reader: bool) {
        let mut room = 0;
        let mut kept = self.kept.lock();
        while room < bytes {
            let victim = match kept.pop_consumed() {
                None if for_reader || is_stale(&kept) => kept.pop_fresh(),
                victim => victim,
            };
            let Some(flight) = victim else { break };
            room += u64::from(flight.length);
            self.discard(Some(flight));
        }
    }

    /// Called under the lock of `kept`: a block is either in the ring or gone.
    fn discard(&self, victim: Option<Arc<Flight>>) {
        if let Some(flight) = victim {
            self.flights.remove(&flight);
            flight.discard();
        }
    }

    fn wrap(&self, permit: Permit) -> BlockMemory {
        BlockMemory::new(permit, &self.freed)
    }
}

fn is_stale(kept: &KeptBlocks) -> bool {
    kept.oldest_fresh().is_some_and(|flight| flight.kept_for() > STALE_AHEAD)
}

/// Counts a reader that waits for memory, for as long as it lives.
struct MemoryWaiter<'a>(&'a AtomicUsize);

impl<'a> MemoryWaiter<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        MemoryWaiter(count)
    }
}

impl Drop for MemoryWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn memory_that_comes_and_goes_meanwhile_is_no_fault() {
        let budget = Budget::memory(1 << 20);
        let memory = Memory::new(budget.clone(), Arc::new(Flights::new()));
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    drop(budget.try_acquire(1 << 20));
                }
            });
            let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                (0..200_000).for_each(|_| drop(memory.try_acquire_ahead(1 << 19)));
            }));
            ended.store(true, Ordering::Relaxed);
            assert!(asked.is_ok(), "asking for memory is no fault, whatever is free");
        });
    }
}

//! The fate of a complete block: it goes into the store on a blocking thread, or stays in memory for a while.
//!
//! Blocks that the store declined, and that stay in memory, are offered to it again when there is room: a disk was full, or
//! read-only, for a moment only, or something was evicted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::context::Context;
use super::control::Purpose;
use super::disk::on_any_disk;
use super::flight::Flight;
use super::proof::Comparisons;
use crate::store::{Blocks, DISK_HANGS, NO_ROOM, Put, is_passing};

/// The pause before blocks are offered again; doubled each time that nothing was taken,
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// up to this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// What an offer came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offer {
    taken: u64,
    /// Something is left that is worth another offer.
    is_left: bool,
}

/// Takes complete blocks.
pub(super) struct Settler {
    context: Arc<Context>,
    comparisons: Arc<Comparisons>,
    /// For threads that write.
    put_slots: Semaphore,
    /// Declined blocks are offered to the store again now and then.
    is_offering: AtomicBool,
}

impl Settler {
    pub(super) fn new(context: &Arc<Context>, comparisons: &Arc<Comparisons>) -> Arc<Self> {
        let writers = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8));
        Arc::new(Settler {
            context: context.clone(),
            comparisons: comparisons.clone(),
            put_slots: Semaphore::new(writers),
            is_offering: AtomicBool::new(false),
        })
    }

    /// Takes a block whose last byte has arrived; its readers have been answered already.
    pub(super) fn finish(self: &Arc<Self>, flight: &Arc<Flight>) {
        self.context.metrics.fills.inc();
        match &self.context.blocks {
            None => self.settle(flight, Put::Declined("no cache")),
            Some(blocks) => {
                let (settler, blocks, flight) = (self.clone(), blocks.clone(), flight.clone());
                let settle = async move {
                    let put = settler.put(blocks, &flight).await;
                    settler.settle(&flight, put);
                };
                self.context.spawn(settle);
            }
        }
    }

    /// Writes the block. Few threads do so at a time; meanwhile the block's memory stays taken, which slows down
    /// whoever fetches faster than the disk writes.
    async fn put(&self, blocks: Arc<dyn Blocks>, flight: &Arc<Flight>) -> Put {
        let _slot = self.put_slots.acquire().await;
        let flight = flight.clone();
        let writer = blocks.clone();
        let write = move || {
            let put = writer.put(flight.source.key(), flight.id.index, &flight.parts());
            if let (Put::Stored | Put::Present, Some(proof)) = (&put, flight.proof()) {
                writer.note_proof(&flight.id.file, proof);
            }
            put
        };
        match on_any_disk(&self.context.runtime, &*blocks, write).await {
            Some(Ok(put)) => put,
            // The thread panicked, or the runtime is going away: the reader has its bytes all the same.
            Some(Err(_)) => Put::Declined("interrupted"),
            // Others must not wait for the disk, nor for the memory.
            None => Put::Declined(DISK_HANGS),
        }
    }

    /// Ends the flight of a block as the store has answered.
    pub(super) fn settle(self: &Arc<Self>, flight: &Arc<Flight>, put: Put) {
        match put {
            Put::Stored | Put::Present => {
                self.context.flights.remove(flight);
                // Whoever hears of the end can see that it is due.
                let due = flight.proof().is_none().then(|| self.comparisons.due_comparison(&flight.source)).flatten();
                flight.end_stored();
                // Last: what turns out to be wrong is not in memory any more.
                if let Some(due) = due {
                    self.comparisons.start_comparison(due);
                }
            }
            Put::Declined(reason) if self.keeps(flight) => {
                self.context.memory.keep(flight.clone(), reason);
                self.offer_later(reason);
            }
            Put::Declined(reason) => {
                self.context.flights.remove(flight);
                flight.end_declined(reason);
                flight.discard();
            }
        }
    }

    /// A declined block stays in memory unless only a warm-up wanted it.
    fn keeps(&self, flight: &Flight) -> bool {
        !self.context.closing.is_cancelled() && (flight.control.purpose != Purpose::Warm || flight.control.was_served())
    }

    /// A block was declined for `reason`: has all such blocks offered again, until none is left.
    fn offer_later(self: &Arc<Self>, reason: &'static str) {
        let is_of_use = self.context.blocks.is_some() && is_worth_another(reason);
        if !is_of_use || self.context.closing.is_cancelled() || self.is_offering.swap(true, Ordering::AcqRel) {
            return;
        }
        let settler = self.clone();
        let offering = async move {
            tokio::select! {
                () = settler.context.closing.cancelled() => return,
                () = settler.offer_until_taken() => {}
            }
            settler.is_offering.store(false, Ordering::Release);
            // One may have come since it was looked.
            if settler.context.memory.keeps_any(is_worth_another) {
                settler.offer_later(reason);
            }
        };
        self.context.spawn(offering);
    }

    async fn offer_until_taken(self: &Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            let offer = self.offer_kept().await;
            if !offer.is_left {
                return;
            }
            pause = if offer.taken > 0 { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        }
    }

    /// Offers the store what it declined, one block after the other, until it declines one again. How many it took.
    pub(super) async fn offer_again(self: &Arc<Self>) -> u64 {
        self.offer_kept().await.taken
    }

    async fn offer_kept(self: &Arc<Self>) -> Offer {
        let mut offer = Offer { taken: 0, is_left: true };
        let Some(blocks) = &self.context.blocks else { return offer };
        while self.context.memory.keeps_any(is_worth_another) {
            let room = self.room_now().await;
            let may = |reason: &'static str, length| match room {
                Some(room) => is_passing(reason) || (reason == NO_ROOM && length <= room),
                None => false,
            };
            let Some(flight) = self.context.memory.take_kept(may) else { return offer };
            let put = self.put(blocks.clone(), &flight).await;
            let declined = matches!(put, Put::Declined(_));
            self.settle(&flight, put);
            if declined {
                return offer;
            }
            offer.taken += 1;
        }
        offer.is_left = false;
        offer
    }

    /// Free bytes where the store would take something now; `None` where no disk would.
    pub(super) async fn room_now(&self) -> Option<u64> {
        let blocks = self.context.blocks.clone()?;
        let asked = blocks.clone();
        let room = on_any_disk(&self.context.runtime, &*blocks, move || asked.room_now()).await;
        room.and_then(Result::ok).flatten()
    }
}

fn is_worth_another(reason: &'static str) -> bool {
    is_passing(reason) || reason == NO_ROOM
}

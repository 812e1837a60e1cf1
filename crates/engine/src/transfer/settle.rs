//! The fate of a complete block: it goes into the store on a blocking thread, or stays in memory for a while.

use std::sync::Arc;

use super::Transfer;
use super::control::Purpose;
use super::disk::on_any_disk;
use super::flight::Flight;
use crate::store::{Blocks, DISK_HANGS, Put};

impl Transfer {
    /// Takes a block whose last byte has arrived; its readers have been answered already.
    pub(crate) fn finish(self: &Arc<Self>, flight: &Arc<Flight>) {
        self.metrics.fills.inc();
        match &self.blocks {
            None => self.settle(flight, Put::Declined("no cache")),
            Some(blocks) => {
                let (transfer, blocks, flight) = (self.clone(), blocks.clone(), flight.clone());
                let settle = async move {
                    let put = transfer.put(blocks, &flight).await;
                    transfer.settle(&flight, put);
                };
                drop(self.tasks.spawn_on(settle, &self.runtime));
            }
        }
    }

    /// Writes the block. Few threads do so at a time; meanwhile the block's memory stays taken, which slows down
    /// whoever fetches faster than the disk writes.
    pub(super) async fn put(&self, blocks: Arc<dyn Blocks>, flight: &Arc<Flight>) -> Put {
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
        match on_any_disk(&self.runtime, &*blocks, write).await {
            Some(Ok(put)) => put,
            // The thread panicked, or the runtime is going away: the reader has its bytes all the same.
            Some(Err(_)) => Put::Declined("interrupted"),
            // Others must not wait for the disk, nor for the memory.
            None => Put::Declined(DISK_HANGS),
        }
    }

    pub(super) fn settle(self: &Arc<Self>, flight: &Arc<Flight>, put: Put) {
        match put {
            Put::Stored | Put::Present => {
                self.flights.remove(flight);
                // Whoever hears of the end can see that it is due.
                let due = flight.proof().is_none().then(|| self.due_comparison(&flight.source)).flatten();
                flight.end_stored();
                // Last: what turns out to be wrong is not in memory any more.
                if let Some(due) = due {
                    self.start_comparison(due);
                }
            }
            Put::Declined(reason) if self.keeps(flight) => {
                self.memory.keep(flight.clone(), reason);
                self.offer_later(reason);
            }
            Put::Declined(reason) => {
                self.flights.remove(flight);
                flight.end_declined(reason);
                flight.discard();
            }
        }
    }

    /// A declined block stays in memory unless only a warm-up wanted it.
    fn keeps(&self, flight: &Flight) -> bool {
        !self.closing.is_cancelled() && (flight.control.purpose != Purpose::Warm || flight.control.was_served())
    }
}

//! Blocks that the store declined, and that stay in memory, are offered to it again when there is room: a disk was full, or
//! read-only, for a moment only, or something was evicted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Transfer;
use super::disk::on_any_disk;
use crate::store::{NO_ROOM, Put, is_passing};

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

impl Transfer {
    /// A block was declined for `reason`: has all such blocks offered again, until none is left.
    pub(super) fn offer_later(self: &Arc<Self>, reason: &'static str) {
        let is_of_use = self.blocks.is_some() && is_worth_another(reason);
        if !is_of_use || self.closing.is_cancelled() || self.is_offering.swap(true, Ordering::AcqRel) {
            return;
        }
        let transfer = self.clone();
        let offering = async move {
            tokio::select! {
                () = transfer.closing.cancelled() => return,
                () = transfer.offer_until_taken() => {}
            }
            transfer.is_offering.store(false, Ordering::Release);
            // One may have come since it was looked.
            if transfer.memory.keeps_any(is_worth_another) {
                transfer.offer_later(reason);
            }
        };
        drop(self.tasks.spawn_on(offering, &self.runtime));
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
        let Some(blocks) = &self.blocks else { return offer };
        while self.memory.keeps_any(is_worth_another) {
            let room = self.room_now().await;
            let may = |reason: &'static str, length| match room {
                Some(room) => is_passing(reason) || (reason == NO_ROOM && length <= room),
                None => false,
            };
            let Some(flight) = self.memory.take_kept(may) else { return offer };
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
        let blocks = self.blocks.clone()?;
        let asked = blocks.clone();
        let room = on_any_disk(&self.runtime, &*blocks, move || asked.room_now()).await;
        room.and_then(Result::ok).flatten()
    }
}

fn is_worth_another(reason: &'static str) -> bool {
    is_passing(reason) || reason == NO_ROOM
}

//! Fills of this worker that wait for another's, and fills of others that wait for ours: never both in a way that could
//! close a circle. Pure.
//!
//! Within one view nobody waits for the first owner's fill but the others, and it waits for nobody. Members go by different
//! views for a while, though, and each may take the other for the first owner. So a wait is as old as the view by which
//! it was chosen, and whoever is waited for may itself wait by a newer view only. Along a chain of waits the epochs
//! grow, and none can come back to where it began.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ring::StripeId;
use crate::sync::Mutex;

#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<HashMap<StripeId, Epochs>>);

/// The views by which fills of one stripe wait, one entry a fill.
#[derive(Debug, Default)]
struct Epochs {
    /// Ours, for others.
    ours: Vec<u64>,
    /// Those of others, for ours.
    others: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Side {
    Ours,
    Others,
}

/// A wait, as long as it lives.
#[derive(Debug)]
pub struct Wait {
    waits: Arc<Waits>,
    stripe: StripeId,
    epoch: u64,
    side: Side,
}

impl Waits {
    /// A fill of ours is about to wait for another member's; `None` when it must not.
    pub(super) fn wait(self: &Arc<Self>, stripe: StripeId, epoch: u64) -> Option<Wait> {
        self.enter(stripe, epoch, Side::Ours, |epochs| epochs.others.iter().all(|other| *other < epoch))
    }

    /// Another member's fill is about to wait for ours; `None` when it must not.
    pub(super) fn be_waited_for(self: &Arc<Self>, stripe: StripeId, epoch: u64) -> Option<Wait> {
        self.enter(stripe, epoch, Side::Others, |epochs| epochs.ours.iter().all(|own| *own > epoch))
    }

    fn enter(
        self: &Arc<Self>,
        stripe: StripeId,
        epoch: u64,
        side: Side,
        is_safe: impl FnOnce(&Epochs) -> bool,
    ) -> Option<Wait> {
        let mut stripes = self.0.lock();
        let epochs = stripes.entry(stripe).or_default();
        let safe = is_safe(epochs);
        if safe {
            epochs.of(side).push(epoch);
        } else if epochs.is_empty() {
            stripes.remove(&stripe);
        }
        drop(stripes);
        safe.then(|| Wait { waits: self.clone(), stripe, epoch, side })
    }
}

impl Epochs {
    fn of(&mut self, side: Side) -> &mut Vec<u64> {
        match side {
            Side::Ours => &mut self.ours,
            Side::Others => &mut self.others,
        }
    }

    fn is_empty(&self) -> bool {
        self.ours.is_empty() && self.others.is_empty()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut stripes = self.waits.0.lock();
        let Some(epochs) = stripes.get_mut(&self.stripe) else { return };
        let side = epochs.of(self.side);
        if let Some(place) = side.iter().position(|epoch| *epoch == self.epoch) {
            side.swap_remove(place);
        }
        if epochs.is_empty() {
            stripes.remove(&self.stripe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STRIPE: StripeId = StripeId(7);

    #[test]
    fn who_is_waited_for_waits_by_a_newer_view_only_and_either_may_come_first() {
        let waits = Arc::new(Waits::default());
        let ours = waits.wait(STRIPE, 5);
        assert!(ours.is_some() && waits.be_waited_for(STRIPE, 5).is_none() && waits.be_waited_for(STRIPE, 6).is_none());
        let others = waits.be_waited_for(STRIPE, 4);
        assert!(others.is_some() && waits.wait(STRIPE, 4).is_none() && waits.wait(StripeId(8), 4).is_some());
        drop(ours);
        assert!(waits.be_waited_for(STRIPE, 6).is_some(), "the wait is over");
        drop(others);
        assert!(waits.0.lock().is_empty());
    }

    proptest! {
        /// However members of different views wait for each other, nobody waits for itself in the end.
        #[test]
        fn no_circle_ever_closes(tries in prop::collection::vec((0usize..5, 0usize..5, 0u64..4), 1..60)) {
            let members: Vec<Arc<Waits>> = (0..5).map(|_| Arc::default()).collect();
            let mut held = Vec::new();
            for (from, to, epoch) in tries.into_iter().filter(|(from, to, _)| from != to) {
                let Some(wait) = members[from].wait(STRIPE, epoch) else { continue };
                let Some(promise) = members[to].be_waited_for(STRIPE, epoch) else { continue };
                held.push((from, to, wait, promise));
            }
            let mut reached: Vec<Vec<bool>> = (0..5).map(|from| (0..5).map(|to| {
                held.iter().any(|(a, b, ..)| (*a, *b) == (from, to))
            }).collect()).collect();
            for middle in 0..5 {
                for from in 0..5 {
                    for to in 0..5 {
                        reached[from][to] |= reached[from][middle] && reached[middle][to];
                    }
                }
            }
            prop_assert!((0..5).all(|member| !reached[member][member]));
        }
    }
}

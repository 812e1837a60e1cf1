//! Memory of frames on their way to peers: one budget for all connections of a server.
//!
//! It is taken when a frame may be sent, and given back when its connection's socket has taken it. So whoever holds some
//! waits for a socket alone, never for more memory, an origin or another peer: no circle of waits can pass through here.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::budget::{Budget, Permit};

#[derive(Debug)]
pub struct AnswerMemory {
    budget: Budget,
    waiting: AtomicUsize,
}

impl AnswerMemory {
    pub fn new(budget: Budget) -> Self {
        AnswerMemory { budget, waiting: AtomicUsize::new(0) }
    }

    /// Waits for `bytes`; more than there are in all are taken for all.
    pub async fn acquire(&self, bytes: u32) -> Permit {
        let bytes = u64::from(bytes).min(self.budget.limit());
        if let Some(permit) = self.budget.try_acquire(bytes) {
            return permit;
        }
        let _waiting = Waiting::enter(&self.waiting);
        self.budget.acquire(bytes).await
    }

    /// True while somebody waits.
    pub fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Counts one that waits, for as long as it lives: its answer may be dropped meanwhile.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

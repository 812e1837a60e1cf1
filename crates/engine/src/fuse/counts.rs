//! Counters of a session: requests by operation, and the references to inodes that the kernel holds.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;

use super::abi::Opcode;
use super::ledger::Ledger;
use crate::metrics::{Metrics, ReasonLabel};

/// Requests by operation, looked up once.
pub struct Counts {
    by_number: Vec<Option<Counter>>,
    unknown: Counter,
    passthrough_opens: Counter,
    passthrough_bytes: Counter,
}

impl Counts {
    pub fn new(metrics: &Metrics) -> Self {
        let counter =
            |name: &str| metrics.fuse_requests.get_or_create(&ReasonLabel { reason: name.to_owned() }).clone();
        let last = Opcode::ALL.iter().map(|(opcode, _)| *opcode as usize).max().unwrap_or(0);
        let mut by_number = vec![None; last + 1];
        Opcode::ALL.iter().for_each(|(opcode, name)| by_number[*opcode as usize] = Some(counter(name)));
        Counts {
            by_number,
            unknown: counter("unknown"),
            passthrough_opens: metrics.passthrough_opens.clone(),
            passthrough_bytes: metrics.passthrough_estimated_bytes.clone(),
        }
    }

    pub fn count(&self, opcode: Option<Opcode>) {
        let known = opcode.and_then(|opcode| self.by_number[opcode as usize].as_ref());
        known.unwrap_or(&self.unknown).inc();
    }

    /// Counts an open of a file of that size whose reads nobody but the kernel sees: each is taken for one read of all.
    pub fn pass_through(&self, size_bytes: u64) {
        self.passthrough_opens.inc();
        self.passthrough_bytes.inc_by(size_bytes);
    }
}

/// References to inodes that the kernel holds. We keep no table of inodes, so this is all they cost us.
#[derive(Debug)]
pub struct Lookups {
    ledger: Arc<Ledger>,
    limit: u64,
}

impl Lookups {
    /// Goes on from the count in the ledger.
    pub fn new(ledger: Arc<Ledger>, limit: u64) -> Self {
        Lookups { ledger, limit }
    }

    /// How many the kernel holds now.
    pub fn held(&self) -> u64 {
        self.ledger.lookups().load(Ordering::Relaxed)
    }

    pub fn add(&self, count: u64) {
        self.ledger.lookups().fetch_add(count, Ordering::Relaxed);
    }

    pub fn forget(&self, count: u64) {
        let less = |held: u64| Some(held.saturating_sub(count));
        let _ = self.ledger.lookups().fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Listings hand out no more inodes once the budget is spent; single look-ups always work.
    pub fn have_room(&self) -> bool {
        self.held() < self.limit
    }
}
